#compdef doit
# Completion of doit in zsh, for checkouts of torchyard: tasks with what they do, options, profile=NAME.
#   source templates/completion.zsh        (after compinit)
# or, for every shell: doit tabcompletion --shell zsh > ~/.zfunc/_doit, with fpath+=~/.zfunc before compinit

_torchyard_doit() {
    [[ -f dodo.py && -f tasks/cli/complete.py ]] || { _files; return }
    local python=${commands[doit]:h}/python line found
    local -a told names
    [[ -x $python ]] || python=python3
    line="${(j: :)words[1,CURRENT-1]} $PREFIX"
    told=("${(@f)$($python -m tasks.cli.complete --told -- "$line" 2>/dev/null)}")
    for found in "${(@)told:#}"; do
        if [[ $found == *=$'\t'* ]]; then
            compadd -S '' -- "${found%%$'\t'*}"
        else
            names+=("${${found%%$'\t'*}//:/\\:}:${found#*$'\t'}")
        fi
    done
    (( $#names )) && _describe -V task names || (( $#told > 1 )) || _files
}

if [[ ${funcstack[1]} == _doit ]]; then
    _torchyard_doit "$@"
else
    compdef _torchyard_doit doit
fi
