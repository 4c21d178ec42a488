"""Find the real errors in a log: those that are neither harmless nor caused by other errors."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tasks.diagnosis.log_lines import LogLine

_ERROR = re.compile(
    r"""
      (?<!-)\b(?:fatal\s)?error(?:\s?[A-Z]+\d+|\[E\d+\])?\s*:  # gcc, clang, git, pip, cargo
    | \b(?:fatal\serror|error)\s[A-Z]{1,6}\d{3,5}\b               # MSVC, MSBuild
    | \berror\s\#\d+(?:-D)?\s*: | \ball\swarnings\sbeing\streated\sas\serrors  # nvcc, gcc: -Werror
    | ^\s*(?:nvcc|ptxas|fatbinary|nvlink|ninja)(?::\s|\s)(?:fatal|error)\b
    | ^\s*CMake\sError | ^\s*fatal:\s
    # linkers and loaders
    | \bld(?:[-.]\w+)?:\s(?!warning).*(?:undefined|cannot\s|(?:could\snot|unable\sto)\sfind
        |not\sfound|relocation\s
        |not\srecognized|hidden\ssymbol|DSO\smissing|multiple\sdefinition|attempted\sstatic
        |unknown\stype)
    | ^\s*"\S.*",\sreferenced\sfrom:$   # macOS
    | \bundefined\sreference\sto\b | ^Undefined\ssymbols\sfor | \bmultiple\sdefinition\sof\b
    | \berror\swhile\sloading\sshared\slibraries: | \bsymbol\slookup\serror: | ^dyld(?:\[\d+\])?:\s
    | :\sinvalid\sELF\sheader | ^-+>\s*\d+\s+(?:from|import)\storch\._six\b
    | version\s.?(?:GLIBC|GLIBCXX|CXXABI)_[\d.]+.\snot\sfound
    # programs that ended
    | (?:^|[:.]\s[-\\|/])\s*Killed(?::\s9)?\s*$ | (?:line\s\d+|^zsh|^bash|^sh|\$)\S*:.*\b[Kk]illed\b
    | ^\s*(?:Segmentation\sfault|Bus\serror|Illegal\sinstruction|Aborted)\b
    | :\s+\d+\s(?:Segmentation\sfault|Bus\serror|Aborted|Illegal\sinstruction)
    | ^\s*thread\s'\w+'.*\bpanicked\sat\b   # Rust
    | \bWindows\sfatal\sexception: | ^Original\serror\swas:\s\S   # NumPy
    | ^\s*Fatal\sPython\serror | \bterminate\scalled\safter\sthrowing | ^\s*what\(\):
    # Python; [rank0]: and E are of torchrun and pytest
    | ^(?:\[rank\d+\]:|E|`{1,3})?\s*(?:\w+\.)*\w*
        (?:Error|Exception|Interrupt|Exit|NotFound):(?:\s|$)
    | ^(?:\[rank\d+\]:|E)?\s*(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt)\s*$
    | ^\s*(?:[a-z_]\w*\.)+(?:[A-Z]\w+|gaierror|timeout):\s | :\sNo\smodule\snamed\s
    # tools and shells
    | ^\s*error\soccurred:\sFailed\sto\sfind\stool   # the crate cc
    | ^\s*(?:ERROR|Error|FATAL|Fatal|FATAL\sERROR):\s | ^OMP:\sError\s\#\d+:
    | ^\s*\[(?:ERROR|FATAL|CRITICAL)\]\s | ^(?:==>\sError(?!:\sProcessError)|modprobe:\sERROR):\s
    | ^The\s(?:ampersand\s\(&\)\scharacter|'.'\soperator\sis\sreserved|token\s'&&')   # PowerShell
    | \bhas\sconstraint\s.*\bconflicting\swith\s   # mamba
    | ^npm\s(?:error|ERR!)\s.*\bError:\s | ^\[\w+Error\]:\s
    | :\scannot\sexecute:\srequired\sfile\snot\sfound | ^Unknown\sargument\s
    | \bno\smatching\smanifest\sfor\s
    | \s-\s(?:ERROR|CRITICAL)\s-\s | ^E:\s(?!could) | ^\s*×\s | ^(?:critical|error)\s+libmamba\b
    | ^curl:\s\(\d+\) | ^(?:dpkg|rsync|tar|wget|ssh|cp|mv|mkdir|rm|patch|unzip):\s.*(?:error|cannot|
        unable|denied|Could\snot|Cannot|failed)
    | ^\s*\S+\s:\s(?:Pre)?Depends:\s.*\bbut\s   # apt
    | \bBad\sCPU\stype\sin\sexecutable
    | \bERROR\s\d{3}: | \bError\sresponse\sfrom\sdaemon: | \bCUDA\serror\b
    | :\sprogram\snot\sfound\sor\sis\snot\sexecutable$ | \.\w+:\d+:\sFAILED:$   # protoc; Catch2
    | ^(?:\S*/)?(?:[\w.]+-)*(?:ar|as|ld|ranlib|nm|strip|objcopy|cp|sed|tar|install):\s
        (?:illegal|invalid|unrecogni[sz]ed|unknown)\soption\b
    | ^gpg:\s.*\bfailed:\s | \bbuild\sfailed(?::\s|\s\(first\s\d+\schars\):)   # EasyBuild
    | ^\s*Error!\s\S | 💥\s\w+\sfailed$ | ^\s*Backend\s'\S+'\sis\snot\savailable  # DKMS; maturin
    | \bwas\snot\sfound\sin\sthe\spkg-config\ssearch\spath
    | ^ROCk\smodule\sis\sNOT\sloaded | \bhipErrorNoBinaryForGpu: | \bLLVM\s(?:ERROR|error)\s?:
    | ^\s*Username/Password\sAuthentication\sFailed
    | \bNCCL\s(?:error|failure)\b | ^\s*Could\snot\ssolve\b
    | ^\s*Unable\sto\s(?:find|locate|open|load)\b | executable\sfile\snot\sfound
    | (?:^\s*|\.trash\S*\s-\s)Access\sis\sdenied | ^\s*The\ssyntax\sof\sthe\scommand
    | \bis\snot\srecognized\sas\b | Permission\sdenied\s\(publickey
    | No\sspace\sleft\son\sdevice | \bcatastrophic\serror\b | ^\s*Internal\serror
    | \bstatic\sassertion\sfailed
    | (?:sh|line\s\d+|env|make)\S*:\s.*:\s(?:command\s|Command\s)?not\sfound$
    | ^zsh:\scommand\snot\sfound | ^(?:/usr/bin/)?env:\s.*:\sNo\ssuch\sfile
    | ^g?make(?:\[\d+\])?:\s\S+:\s(?:Command\snot|No\ssuch|Permission)
    | (?:^|:\s)\*\*\*\s(?:No\s(?:rule|targets)|missing\sseparator|multiple\starget|recipe\s)
    | \bCreateProcess\sfailed | \bcould\snot\sget\sa\sworking\sgenerator | ^Extraction\sfailed\.
    | ^(?!\s*--|.*\bthe\s(?:drive|batch\slabel)\sspecified).*(?:^|\s)(?:Could\snot|cannot)\s
        (?:find|open|load)\b.*(?<!\.\.\.)$
    """,
    re.VERBOSE,
)
_CONSEQUENCE = re.compile(
    r"""
      ninja:\sbuild\sstopped | CalledProcessError | ^\s*(?:==\s)?FAILED:\s | Command\serrored\sout\b
    | \bError\scompiling\sobjects | Error\sbuilding\sextension
    | \berror:\s[Cc]ommand\s.*(?:failed\swith|returned\snon-zero)\sexit
    | subprocess-exited-with-error | metadata-generation-failed | backend-unavailable
    | ^\s*(?:ERROR:\s)?Exception:\s*$   # pip, before a traceback
    | :\sTraceback\s\(most\srecent\scall\slast\):\s*$
    | Failed\s(?:to\sbuild|building) | Could\snot\sbuild\swheels
    | g?make(?:\[\d+\])?:\s\*\*\*\s(?:\[|[Ww]aiting|Deleting)
    | [Cc]ollect2:\serror:\sld\sreturned | symbol\(s\)\snot\sfound\sfor\sarchitecture
    | \blinker\scommand\sfailed | \bMSB(?:3721|6006|8066|4181)\b | \bLNK1120\b
    | \berror:\scould\snot\scompile\b | \baborting\sdue\sto\b
    | \berror:\s(?:failed\sto\srun\scustom\sbuild\scommand   # cargo, before the output of build.rs
        |`cargo\s.*`\sfailed\swith\scode)
    | Configuring\sincomplete | did\snot\scomplete\ssuccessfully | returned\sa\snon-zero\scode
    | No\smatching\sdistribution | Pip\ssubprocess\serror
    | pip's\sdependency\sresolver\sdoes | HTTP\sError\s404  # pip installs anyway; a wheel is built
    | \baborting\b | Retry\sscheduled | \bbackend='\w+'\sraised:\s*$   # torch.compile
    | compilation\sterminated | \bCppCompileError:\sC\+\+ | \bBackendCompilerFailed:\sbackend=
    | \d+\s(?:catastrophic\s)?errors?\s(?:detected\sin|generated) | ^\s*raise\b
    | Build\sbackend\sfailed | [Ee]rror:\s[Ff]ailed\sto\scompile\b
    | error:\sFailed\sto\s(?:prepare|resolve\sdependencies  # uv, before the cause
        |download\sand\sbuild|fetch\swheel)
    | Failed\sto\sclone | finished\swith\sstatus\s'error' | \.\.\.\s+error$
    | Process\scompleted\swith\sexit\scode | installation\sof\spackage | ERROR:\sFailed\sto\sbuild
    | did\snot\srun\ssuccessfully | legacy-install-failure
    | \bexternal\sfilter\s.*\sfailed | \bsmudge\sfilter\s\S+\sfailed
    | failed-wheel-build | aborted\sdue\sto\serrors | Error\s\d+$
    | Error\swhile\sgenerating\spackage | \bexit(?:ed\swith)?\s(?:code|status):?\s'?\d+'?\.?$
    | returned\snon-zero\sexit | ^\s*(?:Runtime)?Error:\s*$ | subprocess\.Called
    | Pip\sfailed | Encountered\serror\s(?:while|when)
    | ^\s*ERROR:\sCould\snot\sinstall\srequirement
    | ^\s*ERROR:\sOperation\scancelled\sby\suser | \bBash\sexited\swith\scode | ^\s*Aborted\b
    | ^ERROR:\s.*:\sTraceback\b | \bfailed:?\s\(Exit\s1\)  # Bazel, before the message of the step
    | \bfatal\serror\sU1077\b   # NMAKE
    # an error in another process, thread or program, whose message is below
    | \bCaught\s\w+\sin\s(?:replica|DataLoader\sworker|pin\smemory\sthread)\s
    | \b(?:ProcessRaisedException|ChildFailedError|WorkflowError):\s*$
    | \bfailed\sin\sthe\sTorchScript\sinterpreter\.$ | ^Installation\sfailed\.\sSee\slog\sat\s
    | Failed\sto\simport\s\S+\sbecause\sof\sthe\sfollowing\serror\s*$
    | ^\s*error:\suninstall-[a-z-]+$   # pip, before its message
    | `nvcc`\scommand\sreturns | \bFailed\sto\sdownload\sand\sbuild\b
    | \bIMPORTANT:\sPLEASE\sREAD\sTHIS\sFOR\sADVICE\b   # NumPy
    | \bJax\splugin\sconfiguration\serror:\sException
    | ^ERROR:\sAnalysis\sof\starget | \bAuto-detected\smode\sas\s\S+$  # Docker, before the message
    """,
    re.VERBOSE,
)
_NOISE = re.compile(
    r"""
      ^\s*(?:ChefBuildError|EnvCommandError|CalledProcessError)\s*$  # Poetry's names of an error
    | \btype:\s\S+:\snot\sfound   # the shell looks for a program
    | Error\schecking\scompiler\sversion | could\snot\sfind\sninja
    | ^(?!.*\berror:\s).*(?:^|\s)["']?-Werror | ^\s*Running\scommand\s   # flags; pip's progress
    | (?:^|[:\s])warning(?!\sSTL\d)(?:\s[A-Z]*\d*\S*)?\s*: | \bwarning\s\#\d+ | ^\s*\#warning
    | (?<!<)\s0\s*$   # counters
    | [,;]\s(?:(?:skipping|falling\sback|trying|retrying)\b|building\sfrom\ssource) | \(ignored\)$
    | \bINFO:\sCould\snot\sfind\sfiles\sfor\sthe\sgiven   # where
    | \bCannot\sfind\sNVTX3,\sfind\sold   # text of a warning of torch
    | \bNo\smodule\snamed\s\S+,\susing\b | ^\s*rm:\scannot\sremove\s.*:\sNo\ssuch\sfile
    | \bupdate-alternatives:\serror:\sno\salternatives | ^\s*Last\serror:\s*$   # NCCL's heading
    | ^(?!.*\berror\b).*[:)]\s*note:\s | \bNCCL\sINFO\s | \bUnable\sto\sregister\scu\w+\sfactory\b
    | ^ERROR:\s+\S+:\d+:\s\w*Warning:\s
    | ^\s*fail\(   # the source of a Bazel rule
    | ^g?make(?:\[\d+\])?:\s\*\*\*\s\[.*\bcmTC_\w+   # CMake's test program
    | \bfor\sAlgo\s\d+:\s-1\.0+\stime\b   # cuDNN tries its algorithms
    | ^ERROR:\s(?:\s+\S|Serialize\sengine\sfailed\sbecause\sof\sfile\spath:)   # DeepStream
    | ^(?:==>|\s*)\s*\[?(?:WARN(?:ING)?|INFO|DEBUG|Warning)\b[\]:\s] | ^\S+:\s\[?WARNING\b
    # records below the level of an error
    | ^-?\s*[\w.]+\s-\s(?:DEBUG|INFO|WARNING)\s-\s | ^\|\s(?:DEBUG|INFO|WARNING|SUCCESS)\s+\|\s
    | \blevel=(?:DEBUG|INFO|WARN|debug|info|warn)\b | ^[IW]\d{4}\s[\d:.]+\s+\d+\s\S+:\d+\]
    | ^\[[IWD]\s[\d-]+\s[\d:.,]+(?:\s\w+)?\]\s | ^npm\s(?:warn|WARN|notice|http|verb|info|sill)\b
    | ^\s*\S*libbitsandbytes_cpu\.so:\sundefined\ssymbol   # a warning of bitsandbytes
    | \bRAND_load_file: | \bCould\snot\scollect$ | \bCould\snot\sopen\sstatic\sfile
    | ^The\scurrent\sproject\scould\snot\sbe\sinstalled
    | ^\s*(?:[a-z_]\w*\.)+[A-Z]\w+:\s(?:True|False|None)$   # a table of settings
    | \|\|\s(?:echo|true|:)\b   # a shell's command
    | ^\#\#\[warning\] | \bskipped:\s | ^\[\w+\]\s(?:WARNING|INFO|DEBUG)\b | \bnote:\s'?\#pragma\s
    | \bwas\snot\sfound\s.*\bDownloading\s   # vcpkg
    | ^\s*--\s(?:Performing|Looking|Check|Detecting|Found)\b | ^\s*\d+\s\|\s | ^\s*\|\s | ^\s*note:
    | ^\s*(?:adding|copying|creating|writing|reading|running|inflating|Downloading)\s
    | ^\s*Compiling\s(?!.*\sfailed\.?$)
    | ^(?:\[pid\s+\d+\]\s|\d+\s+)?(?:[\d:.]+\s)?\w+\(.*\)\s+=\s(?:-?\d|0x|\?)   # strace
    | ^\s*(?:HEAD\sis\snow\sat|commit|\*)\s[0-9a-f]{7,}\b | ^\s*[0-9a-f]{7,40}\s\w  # git's words
    | ^\s*\[\s*\d+%\]\s | \bBuilt\starget\s   # make's progress, and Ninja's with CMake's own steps
    | ^\s*\[\d+/\d+\]\s(?:Building|Linking|Generating|Performing|Completed|Creating|No)\s
    | ^\s+\S+:\d+\s\(\w+\)$ | DEPRECATION | ^\s*\w*Warning: | ^\s*\S+:\d+:\s\w*Warning:
    | ^\s*checking\s(?!.*\berror:)
    | \bobject\s'.*'\sfrom\sLD_PRELOAD\scannot\sbe\spreloaded.*ignored   # glibc goes on
    | \bNo\smodule\snamed\s'?apport\b   # of Ubuntu, which only reports a failed package
    | ^\$\s[\w(./~] | ^(?:python3?|pip3?|cmake|make)\s.*\|\s?(?:findstr|grep|tee)\b   # commands
    | ^\s*print\( | is\signored: | ^Error\scaught\swas:   # xformers, of its optional triton
    | ^[\d\s:.-]*[IW]\stensorflow/ | ^(?:\[\w+\]:)?\[W\s[^\]]*\w+\.cpp:\d+\]   # torch's warnings
    | \bCannot\screate\sreport:   # apport of Ubuntu
    | ^ERROR:\sIgnored\sthe\sfollowing\syanked   # pip goes on
    | ^slurmstepd:\serror:\scouldn't\schdir\sto\b   # the job starts in /tmp
    | ^Unable\sto\sfind\simage\s'.*'\slocally   # docker run pulls it then
    | ^[A-Z]?[\w',]+\s(?:[\w',()]+\s){3,}.*\berrors?(?:\smessage)?\s?:$   # prose before a message
    | ^\s*(?:\w+/)*(?:conftest|_configtest|Check(?:Symbol|Function|Include)\w*)\.c\w*[:(]  # probes
    | CMakeFiles/CMake(?:Tmp|Scratch)/\S*src\.c\w*[:(]
    | \b(?:0|[Nn]o)\s[Ee]rrors?\b | \b0\s(?:Error\(s\)|ERROR\b) | \blevel:\sLevel\.
    | ^\[[\d/:-]+\]\s\[[VIW]\]\s   # TensorRT
    | ^Waiting\sfor\scache\slock: | ^[\d:.]+\s+\d+\s+0x\w+\s(?:WARN|INFO|DEBUG)\s   # GStreamer
    | ^Warp\sCUDA\serror(?:\s36\b|:\s(?:Could\snot\sopen|Function)\s)   # Warp works without a GPU
    | \b[Ee]rror\s*[:=]\s*(?:none|None|\d+\.\d+(?:e-?\d+)?%?|\d+%)\s*(?:$|[,|()]|ok$)   # a metric
    | ^configure:(?:\d+:\s|\serror:\sin\s) | ^\s*\S+\s(?:PASSED|XFAIL|SKIPPED)\b
    | \.\.\.\s(?:ok|yes|no|none\sneeded)$
    | ^(?:\s*\[\d+/\d+\])?\s*(?:ccache\s|sccache\s)?["']?\S*
      (?:nvcc|gcc|g\+\+|c\+\+|cc|clang|clang\+\+|cl|link)(?:-\d+)?(?:\.exe)?["']?\s[-/@]\S*\s
    """,
    re.VERBOSE,
)
_STATUS_MESSAGE = re.compile(r"^\s*--\s(?!.*\berror:\s)|^W:\s")  # of CMake; apt's warnings
_WEAK_ERROR = re.compile(  # used only if the log has no other error
    r"^\s*\S+: (?:.*: )?(?:No such file or directory|Permission denied|not found)$|"
    r"\b(?:[Ff]ailed to|[Uu]nable to|[Cc]annot|can't|[Cc]ould not) \w|\bERROR\b|\bnot found\b|"
    r"^\s*(?:FAILED|Failed|ERROR) \S|\bERR! (?!code|path|command|gyp info|\s)|"
    r"\bThe detected CUDA version\b"
)
_LOCATIONS = (
    re.compile(r"^\s*(?P<file>(?:[A-Za-z]:)?[^:(\s][^:(]*):(?P<line>\d+)(?::\d+)?:\s"),
    re.compile(r"^\s*(?P<file>(?:[A-Za-z]:)?[^:(\n]*(?:\([^)\d][^)]*\)[^:(\n]*)*)\((?P<line>\d+)(?:,\d+)?\)\s?:"),
    re.compile(r"^\s*CMake \w+ at (?P<file>.+?):(?P<line>\d+)\b"),
    re.compile(r"^\s*ptxas (?P<file>\S+), line (?P<line>\d+);"),
)  # fmt: skip
_COMPILER_ERROR = re.compile(r"[:)]\s*(?:fatal )?error(?: [A-Z]*\d+| #\d+(?:-D)?)?\s*:")
_MAX_SHOWN_LENGTH = 300
_ERROR_IN_LONG_LINE = re.compile(  # lines that were joined when the log was copied
    r"(?<!\S)(?:[A-Za-z]:)?[^\s:(]+[:(]\d+\S*\s*(?:fatal |catastrophic )?error\b.{0,300}"
)


@dataclass(frozen=True)
class FirstError:
    """An error in the log line `number`; `file` and `line` are its source location, if named."""

    number: int
    text: str
    file: str | None = None
    line: int | None = None


def find_error_or_last_line(lines: Iterable[LogLine]) -> FirstError | None:
    """Return the first real error; if none exists, the last line that is not blank."""
    last = None
    for line in lines:
        if is_error(line):
            return parse_error(line)
        last = line if line.text.strip() else last
    return parse_error(last) if last else None


def find_consequence(lines: Sequence[LogLine]) -> LogLine | None:
    """Return the first line that reports an error of which the log has no cause."""
    shown = [
        one
        for one in lines
        if not (one.is_harmless or is_noise(one.text) or _STATUS_MESSAGE.match(one.text))
        and not one.text.lstrip().startswith("raise ")
    ]
    for line in shown:
        if line.failed is not False and _CONSEQUENCE.search(line.text):
            return line
    return next((one for one in shown if _WEAK_ERROR.search(one.text)), None)


def is_error(line: LogLine) -> bool:
    """Return True if the line reports an error that is not a consequence of another error."""
    if line.failed is False or line.is_harmless or not _ERROR.search(line.text):
        return False
    if is_noise(line.text) or _STATUS_MESSAGE.match(line.text):
        return False
    consequence = _CONSEQUENCE.search(line.text)
    if consequence is None:
        return True
    # Lines that were joined when the log was copied
    located = find_source_location(line.text) and _COMPILER_ERROR.search(line.text)
    return bool(located and located.start() < consequence.start())


def is_noise(text: str) -> bool:
    """Return True for a warning, a command, a CMake check or a source line."""
    return bool(_NOISE.search(text))


def is_consequence(line: LogLine) -> bool:
    """Return True if the line reports that something failed because of another error."""
    if line.is_harmless or is_noise(line.text):
        return False
    return bool(_CONSEQUENCE.search(line.text))


def is_compiler_error(line: LogLine) -> bool:
    """Return True if the line is an error of a compiler at a location in a source file."""
    is_located = is_error(line) and find_source_location(line.text) is not None
    return is_located and bool(_COMPILER_ERROR.search(line.text))


def parse_error(line: LogLine) -> FirstError:
    """Return the error in a line, with the location in the sources if the line names it."""
    text = (line.original or line.text).strip()
    joined = _ERROR_IN_LONG_LINE.search(text) if len(text) > _MAX_SHOWN_LENGTH else None
    if joined and re.search(r": | -", text[: joined.start()]):
        file, number = find_source_location(joined[0]) or (None, None)
        return FirstError(line.number, joined[0], file, number)
    file, number = find_source_location(line.text) or (None, None)
    return FirstError(line.number, text, file, number)


def find_source_location(text: str) -> tuple[str, int] | None:
    """Return the source file and line named in a message of a compiler, CMake or ptxas."""
    for pattern in _LOCATIONS:
        if match := pattern.search(text):
            return match["file"].strip(), int(match["line"])
    return None
