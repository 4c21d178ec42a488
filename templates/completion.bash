# Completion of doit in bash, for checkouts of torchyard: tasks, options, profile=NAME.
#   source templates/completion.bash
# or, for every shell: doit tabcompletion --shell bash > ~/.local/share/bash-completion/completions/doit

_torchyard_doit() {
    COMPREPLY=()
    [[ -f dodo.py && -f tasks/cli/complete.py ]] || return 0
    local line="${COMP_LINE:0:COMP_POINT}" doit python found cut
    doit=$(type -P "${COMP_WORDS[0]}") || return 0
    python=${doit%/*}/python
    [[ -x $python ]] || python=python3
    while IFS= read -r found; do
        COMPREPLY+=("$found")
    done < <("$python" -m tasks.cli.complete -- "$line" 2>/dev/null)
    # Readline has cut the word at ":" and "=", and puts in only what comes after
    cut=${line##* }
    cut=${cut%"${cut##*[=:]}"}
    [[ -z $cut || $COMP_WORDBREAKS != *"${cut: -1}"* ]] || COMPREPLY=("${COMPREPLY[@]#"$cut"}")
    case "${COMPREPLY[0]-}" in
        *=) compopt -o nospace ;;
    esac
}
complete -o default -F _torchyard_doit doit
