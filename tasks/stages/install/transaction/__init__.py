"""What took the place of a person's packages, and what it took the place of: kept until restored.

    replaced/STAMP/          one for each environment; the stamp is when it was changed first
      replaced.json          what was there before, and what lies there now (journal.Exchange)
      files/                 what was there before: hard links, or copies, by the path they had
      change/                an install at work: change.json, files/ and staged/
      restoring              somebody asked for the way back, and it is not over
      aside/WHEN/            files of a person's own that were in the way

Nothing is changed before a journal says what was there, and every step can be made twice. So a KILL
at any moment is mended by whoever comes next, the install or the restore (`interrupted`):

    keep ─► change.json "installing" ─► exchange ─► import ─► "settling" ─► replaced.json
                      └────────── put back ◄── failed, or killed             forgets change/
"""
