"""The write-ahead log: after a crash, every acknowledged write is found in it.

One log a region server, in a folder of its own, a sequence of preallocated segments. docs/wal_format.md has the format,
and the steps of a reader. Reading order:

    record        the format of a record
    segment       the header, the file and the name of a segment
    marker        the log's own records: markers, reservations and generations
    durable       the file `durable` in the log's folder: how far the log is durable
    batch         records that are written together, and the callers that wait for them
    chains        the state of each region at the log's end, for markers
    pending       records that are appended and not yet written, in log order
    writer        the one thread that writes, syncs, rolls and completes
    preallocated  the next segment, preallocated ahead of time
    log_cleaner   which segments may be removed, and the thread that removes them
    log           Log: those parts and their life cycle
    reader        finds the valid records in the bytes of a segment
    displaced     records at another offset than the one at which they were written
    log_replay    delivers records, and checks each region's chain
    log_reader    one pass over the segments: torn tail or damage
    recovered     the result of that pass
    recovery      recover(): that pass, and the cut
    opening       the segment with which a recovered log continues
    mutation      the payloads of changes; the log does not look into them

Invariants:

1. Log order is write-number order: one lock, `Log.order`, is held around "take a write number and append".
2. Completion order is log order, and only the log thread (writer.py) completes. A record with durability FSYNC
   completes after an fdatasync that began after the record was written.
3. A segment exists under its name only when its head is durable and its predecessor is durable up to the final
   length which that head states.
4. If a record or the file `durable` calls a position durable, it was so before they were written. So a bad record
   before the greatest such position is damage, and one after it is a torn tail.
5. A recovery delivers a record at most once, also after a crash of an earlier recovery: a record is either before its
   segment's final length or in the successor, and one rename decides which.
6. A failed write or sync is final: nothing completes after it.
"""
