"""Translate messages of compilers, linkers, shells and Windows to English."""

import re
from functools import partial

_TRANSLATIONS = {
    "fatal error": (
        *("致命错误", "致命的エラー", "[Ss]chwerwiegender Fehler", "erreur fatale"),
        *("error fatal", "erro fatal", "errore fatale", "фатальная ошибка", "치명적 오류"),
        *("ölümcül hata", "błąd krytyczny", "критическая ошибка", "嚴重錯誤"),
    ),
    "error": (
        r"(?:错误|錯誤|エラー|오류|ошибка|\bFehler|\berreur|\berrore|\berro)\s*(?=[:：])",
        r"\b(?:błąd|hata)\s*(?=:)",
    ),
    "warning": (
        r"(?:警告|경고|предупреждение|\b(?:Warnung|avertissement|aviso|avviso))\s*(?=[:：])",
        r"\b(?:ostrzeżenie|uyarı)\s*(?=:)",
    ),
    "No such file or directory": (
        "没有那个文件或目录",
        "沒有此一檔案或目錄",
        "そのようなファイルやディレクトリはありません",
        *("Datei oder Verzeichnis nicht gefunden", "Aucun fichier ou dossier de ce type"),
        *("No existe el (?:archivo|fichero) o el directorio", "File o directory non esistente"),
        *("Нет такого файла или каталога", "그런 파일이나 디렉터리가 없습니다"),
        *("Arquivo ou diretório inexistente", "Ficheiro ou directoria inexistente"),
        *("Não existe o ficheiro ou diretório", "Arquivo ou diretório não encontrado"),
        "Nie ma takiego pliku ani katalogu",
        "沒有這個檔案或目錄",
        "Aucun fichier ou répertoire de ce type",
        "(?:Böyle bir dosya ya da dizin yok|Yok böyle dosya ya da dizin)",
        *("Bestand of map bestaat niet", "Adresář nebo soubor neexistuje"),
        "Немає такого файл[аy]? або каталог[ау]?",
    ),
    "No space left on device": (
        *("设备上没有空间", "磁盘空间不足", "デバイスに空き領域がありません"),
        "Auf dem Gerät ist kein Speicherplatz mehr verfügbar",
        *("Aucun espace disponible sur le périphérique", "No queda espacio en el dispositivo"),
        *("На устройстве не осталось свободного места", "장치에 남은 공간이 없음"),
        *("Não há espaço disponível no dispositivo", "Spazio esaurito sul device"),
    ),
    "not enough space on the disk": (
        "Es steht nicht genug Speicherplatz auf dem Datenträger",
        "ディスクに十分な空き領域がありません",
    ),
    "Cannot allocate memory": (
        "无法分配内存",
        "無法配置記憶體",
        "メモリを確保できません",
        "메모리를 할당할 수 없습니다",
        *("Nicht genügend (?:Haupts|S)peicher verfügbar", "Kann Speicher nicht allozieren"),
        "(?:Impossible d'|Ne peut )allouer de la mémoire",
        "No se (?:pudo|puede) asignar memoria",
        *("(?:Не удалось|Невозможно) выделить память", "Impossibile allocare (?:la )?memoria"),
        "Não foi possível alocar memória",
    ),
    "Resource temporarily unavailable": (
        *("资源暂时不可用", "資源暫時無法取得", "リソースが一時的に利用できません"),
        *("Die Ressource ist zur Zeit nicht verfügbar", "Ressource temporairement non disponible"),
        *("Recurso no disponible temporalmente", "Ресурс временно недоступен"),
        *("자원이 일시적으로 사용 불가능함", "Risorsa temporaneamente non disponibile"),
        *("Recurso temporariamente indisponível", "Zasoby chwilowo niedostępne"),
    ),
    r"Killed signal terminated program \1": (
        (r"(?:Getötet|Killed|Signal gelöscht)\W*\s*-?Signal (?:beendete|hat) (?:das )?Programm "
        r"\W?(\w+)\W*(?: beendet)?"),
        (r"(?:已杀死|已終止|強制終了|Убито|Убит|Processus arrêté|Terminado(?: \(killed\))?|"
        r"Zabity|Öldürüldü|"
        r"Ucciso|Morto|죽었음) [^:]*?(?:signal|signál|señal|sinal|sygnał|сигнал|시그널|"
        r"シグナル|信号)\w* "
        r"[^:]*?(\w+)\s*$"),
    ),
    "Killed": (
        (r"^(?:已杀死|已砍掉|強制終了|Getötet|Processus arrêté|Убито|Terminado \(killed\)|"
        r"죽었음|Ucciso|Morto|"
        r"Zabity|Unicestwiony|Öldürüldü)\s*$"),
    ),
    "Segmentation fault": (
        "段错误",
        "程式記憶體區段錯誤",
        "Speicherzugriffsfehler",
        "Erreur de segmentation",
        "セグメンテーション違反",
        "Violación de segmento",
        "`core' generado",
        "Ошибка сегментирования",
        "Errore di segmentazione",
        *("Falha de segmentação", "세그멘테이션 오류", "Naruszenie ochrony pamięci"),
    ),
    "Permission denied": (
        "权限不够",
        "許可がありません",
        "Keine Berechtigung",
        "Permission non accordée",
        "拒絕不符權限的操作",
        "Permiso denegado",
        "Permesso negato",
        "Permissão (?:negada|recusada)",
        "허가 거부",
        "權限不夠",
        *("Отказано в доступе$", "Brak dostępu", "Erişim engellendi", "İzin verilmedi"),
    ),
    "Access is denied": (
        "拒绝访问",
        "存取被拒",
        "アクセスが拒否されました",
        "액세스가 거부되었습니다",
        "Zugriff verweigert",
        "Accès refusé",
        "Acceso denegado",
        "Accesso negato",
        "Acesso negado",
        "Отказано в доступе",
        *("Odmowa dostępu", "Erişim (?:engellendi|reddedildi)"),
    ),
    "command not found": (
        "未找到命令(?:\\.\\.\\.)?",
        "コマンドが見つかりません",
        "(?:Kommando|Befehl) nicht gefunden\\.?",
        *("commande introuvable", "(?:orden|comando) no encontrad[oa]", "comando non trovato"),
        "comando não encontrado",
        "команда не найдена",
        "명령어를 찾을 수 없음",
        "找不到指令",
        "無此指令",
        *("nie znaleziono polecenia", "komut bulunamadı", "opdracht niet gevonden"),
    ),
    r"undefined reference to '\1'": (
        r"对.(\S+?).未定义的引用",
        r".?(\S+?).? に対する定義されていない参照です",
        r"referencia a [`«\"'](.+?)['»\"] sin definir",
        r"неопредел[её]нная ссылка на [«`\"'](.+?)['»\"]",
        r"[`'\"](\S+?)['\"]에 대한 정의되지 않은 참조(?:입니다)?",
        r"(?:[Nn]icht definierter|[Uu]ndefinierter) Verweis auf ?[`'\"](.+?)['\"]",
        r"référence indéfinie vers ?[`'\"](.+?)['\"]",
    ),
    "undefined reference to": (
        *("(?:[Nn]icht definierter|[Uu]ndefinierter) Verweis auf", "référence indéfinie vers"),
        *("riferimento non definito a", "referência não definida (?:para|a)"),
        *("niezdefiniowane odwołanie do", "未定義參考到"),
    ),
    r"cannot find \1": (
        r"找不到 ?(-l\S+)(?:[：:].*)?",
        (r"(?:kann|impossibile trovare|не удалось найти|невозможно найти|не найден\w*|ne peut "
        r"trouver) (-l\S+)[^:]*$"),
        r"(?:impossible de trouver|ne peut trouver) (-l[^\s:]+)",
        (r"(?:no se puede encontrar|não foi possível encontrar|impossível encontrar|nie można "
        r"odnaleźć) (-l[^\s:]+)"),
        r"(-l[^\s:]+)(?: kann nicht gefunden werden| が見つかりません|을\(를\) 찾을 수 없습니다)",
    ),
    # MSVC: its codes have the same texts with the names in the same order
    r"C1083: Cannot open include file: '\1': No such file": (
        (r"C1083\s?: (?!Cannot open|[^\n]*(?:源|來源|ソース|исходн|Quelldatei|código fuente|"
        r"sorgente))"
        r"[^\n]*?(?<=['\"\s])([^\s'\":]+)['\"]?\s?: ?No such file"),
    ),
    r"C2065: '\1': undeclared identifier": (
        r"C2065\s?: (?!'[^']*'\s?: undeclared)[^'\"\n]*['\"]([^'\"]+)['\"][^\n]*",
    ),
    r"C3861: '\1': identifier not found": (
        r"C3861\s?: (?!'[^']*'\s?: identifier)[^'\"\n]*['\"]([^'\"]+)['\"][^\n]*",
    ),
    r"C2039: '\1': is not a member of '\2'": (
        (r"C2039\s?: (?!'[^']*'\s?: is not)[^'\"\n]*['\"]([^'\"]+)['\"](?:n'est|[^'\"\n])*"
        r"['\"]([^'\"]+)['\"][^\n]*"),
    ),
    # make
    r"No rule to make target '\1', needed by '\2'": (
        r"没有规则可制作目标 ?['\"]([^'\"]+)['\"][，,] ?由 ?['\"]([^'\"]+)['\"] ?需求",
        (r"Keine Regel(?: vorhanden)?, um (?:das )?(?:Target|Ziel)? ?['\"]([^'\"]+)['\"][,，] "
        r"benötigt von ['\"]([^'\"]+)['\"][^.]*"),
        (r"No hay ninguna regla para construir el objetivo ['\"]([^'\"]+)['\"], necesario para "
        r"['\"]([^'\"]+)['\"]"),
        (r"(?:pas|Aucune) de règle pour fabriquer la cible ['\"]([^'\"]+)['\"], nécessaire pour "
        r"['\"]([^'\"]+)['\"]"),
        r"Нет правила для сборки цели ['\"]([^'\"]+)['\"], требуемой для ['\"]([^'\"]+)['\"]",
        (r"['\"]([^'\"]+)['\"] に必要なターゲット ['\"]([^'\"]+)['\"] を make "
        r"するルールがありません"),
        r"타겟 ['\"]([^'\"]+)['\"]을\(를\) 만들 규칙이 없습니다[^'\"]*['\"]([^'\"]+)['\"]",
    ),
    r"No rule to make target '\1'": (
        r"没有规则可(?:以创建|制作)目标 ?['\"]([^'\"]+)['\"]",
        r"Keine Regel(?: vorhanden)?, um (?:das )?(?:Target|Ziel)? ?['\"]([^'\"]+)['\"][^.]*",
        r"No hay ninguna regla para construir el objetivo ['\"]([^'\"]+)['\"]",
        r"(?:pas|Aucune) de règle pour fabriquer la cible ['\"]([^'\"]+)['\"]",
        r"Нет правила для сборки цели ['\"]([^'\"]+)['\"]",
    ),
    "No targets specified and no makefile found": (
        "没有指明目标并且找不到 makefile",
        "Es wurden keine Ziele angegeben und keine \"make\"-Steuerdatei gefunden",
        "No se especificó ningún objetivo y no se encontró ningún makefile",
        "Pas de cible spécifiée et aucun makefile n'a été trouvé",
        "Не заданы цели и не найден make-файл",
        "ターゲットが指定されておらず, makefile も見つかりません",
    ),
    "is not a member of 'std'": ("不是命名空间.std.的成员", "不是.std.的成员"),
    "was not declared in this scope": (
        *("在此作用域中尚未声明", "未声明的标识符"),
        "wurde in diesem Gültigkeitsbereich nicht (?:definiert|deklariert)",
        r"n'a pas été déclarée? dans (?:ce|cette) \w+",
        r"не был[ао]? декларирован\w* в этой области видимости",
        *("no se declaró en este ámbito", "non è stato dichiarato in questo ambito"),
    ),
    "The system cannot find the file specified": (
        *("系统找不到指定的文件。?", "指定されたファイルが見つかりません。?"),
        *("Das System kann die angegebene Datei nicht finden", "系統找不到指定的檔案。?"),
        "El sistema no puede encontrar el archivo especificado",
        *("Le fichier spécifié est introuvable", "Не удается найти указанный файл"),
        *("Nie można odnaleźć określonego pliku", "Sistem belirtilen dosyayı bulamıyor"),
        *("지정된 파일을 찾을 수 없습니다", "Impossibile trovare il file specificato"),
        "O sistema não (?:pode|conseguiu) encontrar o (?:arquivo|ficheiro) especificado",
    ),
    "The system cannot find the path specified": (
        "系统找不到指定的路径。?",
        "指定されたパスが見つかりません。?",
        "系統找不到指定的路徑。?",
        "Das System kann den angegebenen Pfad nicht finden",
        "Системе не удается найти указанный путь",
        "El sistema no puede encontrar la ruta especificada",
        "Le chemin d'accès spécifié est introuvable",
        *("Impossibile trovare il percorso specificato", "지정된 경로를 찾을 수 없습니다"),
        "O sistema não (?:pode|conseguiu) encontrar o caminho especificado",
        "Nie można odnaleźć określonej ścieżki",
    ),
    "The specified procedure could not be found": (
        *("指定されたプロシージャが見つかりません", "找不到指定的程序"),
        *("Die angegebene Prozedur wurde nicht gefunden", "지정된 프로시저를 찾을 수 없습니다"),
        *("La procédure spécifiée est introuvable", "Не найдена указанная процедура"),
        *("No se encontró el proceso especificado", "Impossibile trovare la procedura specificata"),
        "Não foi possível encontrar o procedimento especificado",
    ),
    "A dynamic link library (DLL) initialization routine failed": (
        "Eine DLL-Initialisierungsroutine ist fehlgeschlagen",
        "动态链接库\\(DLL\\)初始化例程失败",
        "Une routine d'initialisation d'une bibliothèque de liens dynamiques \\(DLL\\) a échoué",
        "Произошел сбой в программе инициализации библиотеки динамической компоновки \\(DLL\\)",
        "Error en una rutina de inicialización de biblioteca de vínculos dinámicos \\(DLL\\)",
        "ダイナミック リンク ライブラリ \\(DLL\\) 初期化ルーチンの実行に失敗しました",
        r"Routine di inizializzazione della libreria di collegamento dinamico .DLL. non riuscita",
        "Uma rotina de inicialização da biblioteca de vínculo dinâmico \\(DLL\\) falhou",
        "動態連結程式庫 \\(DLL\\) 初始化例行程序失敗",
        "DLL\\(동적 연결 라이브러리\\) 초기화 루틴을 실행할 수 없습니다",
    ),
    "The specified module could not be found": (
        *("指定されたモジュールが見つかりません", "找不到指定的(?:模块|模組)"),
        *("Das angegebene Modul wurde nicht gefunden", "지정된 모듈을 찾을 수 없습니다"),
        *("Le module spécifié est introuvable", "Не найден указанный модуль"),
        "No se puede encontrar el módulo especificado",
        *("Impossibile trovare il modulo specificato", "Nie można odnaleźć określonego modułu"),
        "Belirtilen modül bulunamadı",
        "Não foi possível encontrar o módulo especificado",
    ),
    " is not recognized as an internal or external command": (
        *(" ?不是(?:内部或外部命令|內部或外部命令)", " ?は、内部コマンドまたは外部コマンド"),
        *(" ?nie jest rozpoznawan[ay] jako polecenie", " ?iç ya da dış komut"),
        " ?ist entweder falsch geschrieben oder",
        *(" ?n'est pas reconnu en tant que commande", " ?no se reconoce como un comando"),
        *(" ?não é reconhecido como um comando", " ?non è riconosciuto come comando"),
        *(" ?не является внутренней или внешней", r"(?:은|은\(는\)|는) 내부 또는 외부 명령"),
    ),
    r"The term '\1' is not recognized as the name of a cmdlet": (
        r"无法将 ?['\"]([^'\"]+)['\"] ?项识别为 cmdlet[^\n]*",
        r"(?:無法辨識|术语|詞彙) ?['\"]([^'\"]+)['\"][^\n]*cmdlet[^\n]*",
        r"Die Benennung ['\"]([^'\"]+)['\"] wurde nicht als Name eines Cmdlet[^\n]*",
        r"Le terme ['\"]([^'\"]+)['\"] n'est pas reconnu[^\n]*",
        r"El término ['\"]([^'\"]+)['\"] no se reconoce[^\n]*",
        r"Имя ['\"]([^'\"]+)['\"] не распознано как имя командлета[^\n]*",
        r"用語 ['\"]([^'\"]+)['\"] は、コマンドレット[^\n]*",
        r"['\"]([^'\"]+)['\"] 용어가 cmdlet[^\n]*",
        r"O termo ['\"]([^'\"]+)['\"] não é reconhecido[^\n]*",
        r"Termine ['\"]([^'\"]+)['\"] non riconosciuto[^\n]*",
        r"Termin ['\"]([^'\"]+)['\"] nie jest rozpoznawany[^\n]*",
    ),
    "File name too long": (
        *("文件名(?:太|过)长", "ファイル名が長すぎます"),
        *("Der Dateiname ist zu lang", "Trop long nom de fichier"),
    ),
}  # fmt: skip
_TRANSLATION_PATTERNS = tuple(
    (re.compile("|".join(foreign)), english) for english, foreign in _TRANSLATIONS.items()
)
_WITHOUT_ACCENTS = re.compile(
    r"fehlgeschl|non riuscita|"
    r"ehler|erreur|nicht|Aucun|Permission non|commande|Trop|kann |Keine|Warnung|avertiss|zu lang|"
    r"errore|erro |erro:|error fatal|existe el|espacio|non esistente|esaurito|killed\)|sin definir|"
    r"aviso|avviso|no se reconoce|Impossib|El sistema no|denega[dt]o|negato|no encontrad|non "
    r"trovato|"
    r"Nie ma |nie znaleziono|no se puede|riferimento|impossible de|ne peut|gefunden|definierter|"
    r"\bC(?:1083|2065|3861|2039)\b|disponib|ninguna regla|falsch geschrieben|Speicher|nie jest"
)
_PLAIN_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′´ʼ‹›「」", "'"),
        **dict.fromkeys("“”„‟″", '"'),
        **dict.fromkeys("\u00a0\u202f\u2009", " "),
        **dict.fromkeys("\u200b\u2060"),
    }
)
_GERMAN_QUOTES = re.compile(r"»([^»«]+)«")
_GUILLEMETS = re.compile(r"«\s?|\s?»")
_QUOTE_THEN_COLON = re.compile(r"(?<=['\"]) :(?=\s|$)")
_FRENCH_COLON = re.compile(r"(?<=\w) :(?=\s|$)")  # in English only MSVC prints it: "LINK : fatal"


def translate_to_english(line: str) -> str:
    """Translate known phrases and quotation marks of other languages in the line to English."""
    is_foreign = not line.isascii()
    if is_foreign:
        line = _GERMAN_QUOTES.sub(r'"\1"', line.translate(_PLAIN_CHARACTERS))
        line = _GUILLEMETS.sub('"', line)
    if " :" in line:
        line = _QUOTE_THEN_COLON.sub(":", line)
    if not (is_foreign or _WITHOUT_ACCENTS.search(line)):
        return line
    for pattern, english in _TRANSLATION_PATTERNS:
        line = pattern.sub(partial(_write_english, english), line)
    return _FRENCH_COLON.sub(":", line).replace("：", ": ")


def _write_english(english: str, found: re.Match[str]) -> str:
    """Return the English text with \\1 and \\2 replaced by the names that the match has."""
    names = [one for one in found.groups() if one is not None]
    for number, name in enumerate(names, start=1):
        english = english.replace(f"\\{number}", name)
    return english
