"""The write-ahead log: what was acknowledged is found again.

One log a region server, in a folder of its own, a row of preallocated segments. The format, with what a reader must
do, is docs/wal_format.md. Reading order:

    record      how one record lies in a segment
    segment     how a segment begins, how its file is made, and what its name is
    marker      the log's own records: markers, reservations and generations
    durable     the file that says beside the log how far it is durable
    batch       records that are written together, and who waits for them
    chains      what the log knows of its regions, for its markers
    pending     what was appended and is not yet written, in log order
    writer      the one thread that writes, syncs, rolls and completes
    spare       the next segment, preallocated ahead of time
    trimmer     which segments may go, and the thread that removes them
    log         Log: those parts and their life cycle
    reader      records in the bytes of a segment, and where they are bad
    displaced   records that stand at another place than they were written
    replay      what each record says about its region's chain
    log_reader  one pass over the segments: torn tail or damage
    recovered   what it found
    recovery    recover(): that pass, and the cut
    opening     the segment with which a recovered log goes on
    mutation    the payloads of changes, which are the regions' business

Invariants:

1. Log order is write-number order: one lock, `Log.order`, is held around "take a write number and append".
2. Completion order is log order, and only the writer thread completes. What asks for FSYNC completes after an
   fdatasync that began after its record was written.
3. A segment exists under its name only when its head is durable and its predecessor is durable up to the final
   length which that head states.
4. What a record, or the file beside the log, calls durable was durable before that was written. So a bad record before
   the greatest such position is damage, and one after it is a torn tail.
5. A record is delivered at most once by a recovery, whatever crashed before it: a record is either before its
   segment's final length or in the successor, and one rename decides which.
6. A failed write or sync is final: nothing completes after it.
"""
