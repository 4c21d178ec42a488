"""Pure: what a report draws and says of a run, from its record: the lanes of the pool, time by
folder, what got slower, the graph of the stages, the page, a trace for Perfetto and the text for a
bug report; and what of all that is nobody else's business.
"""
