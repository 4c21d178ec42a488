"""What GCC, glibc, Python and Windows say in Chinese, Japanese, German and French, read as English.

MSVC needs none of it: its codes are the same everywhere.
"""

from __future__ import annotations

import re

_SAID = (
    (r"致命错误|致命的エラー|[Ss]chwerwiegender Fehler|erreur fatale", "fatal error"),
    (r"(?:错误|錯誤|エラー|\bFehler|\berreur)\s*(?=[:：])", "error"),
    (r"(?:警告|\bWarnung|\bavertissement)\s*(?=[:：])", "warning"),
    (r"没有那个文件或目录|沒有此一檔案或目錄|そのようなファイルやディレクトリはありません", "No such file or directory"),
    (r"Datei oder Verzeichnis nicht gefunden|Aucun fichier ou dossier de ce type", "No such file or directory"),
    (r"设备上没有空间|磁盘空间不足|デバイスに空き領域がありません", "No space left on device"),
    (r"Auf dem Gerät ist kein Speicherplatz mehr verfügbar", "No space left on device"),
    (r"Es steht nicht genug Speicherplatz auf dem Datenträger|ディスクに十分な空き領域がありません", "not enough space on the disk"),
    (r"无法分配内存|メモリを確保できません|Nicht genügend Hauptspeicher verfügbar|Kann Speicher nicht allozieren", "Cannot allocate memory"),
    (r"^(?:已杀死|已终止|強制終了|Getötet|Processus arrêté)\s*$", "Killed"),
    (r"权限不够|許可がありません|Keine Berechtigung|Permission non accordée", "Permission denied"),
    (r"未找到命令|コマンドが見つかりません|Kommando nicht gefunden|commande introuvable", "command not found"),
    (r"对.(\S+?).未定义的引用", r"undefined reference to '\1'"),
    (r"`?(\S+?).? に対する定義されていない参照です", r"undefined reference to '\1'"),
    (r"Nicht definierter Verweis auf|référence indéfinie vers", "undefined reference to"),
    (r"找不到 ?(?=-l)|kann (?=-l\S+ nicht finden)", "cannot find "),
    (r"不是命名空间.std.的成员", "is not a member of 'std'"),
    (r"在此作用域中尚未声明|未声明的标识符|wurde in diesem Gültigkeitsbereich nicht definiert", "was not declared in this scope"),
    (r"系统找不到指定的文件。?|指定されたファイルが見つかりません。?|Das System kann die angegebene Datei nicht finden", "The system cannot find the file specified"),
    (r"页面文件太小|ページング ?ファイルが小さすぎる|Auslagerungsdatei ist zu klein", "The paging file is too small"),
    (r"不是内部或外部命令|は、内部コマンドまたは外部コマンド", " is not recognized as an internal or external command"),
    (r"文件名(?:太|过)长|ファイル名が長すぎます|Der Dateiname ist zu lang|Trop long nom de fichier", "File name too long"),
    (r"无法解析主机|Could not resolve host", "Could not resolve host"),
)  # fmt: skip
_TOLD = tuple((re.compile(said), english) for said, english in _SAID)
_ASCII_TOO = re.compile(
    r"ehler|erreur|nicht|Aucun|Permission non|commande|Auslager|Trop|Kann |kann "
)


def in_english(line: str) -> str:
    """The line with the phrases of other languages replaced; as it is where it has none."""
    if line.isascii() and not _ASCII_TOO.search(line):
        return line
    for said, english in _TOLD:
        line = said.sub(english, line)
    return line.replace("：", ": ")
