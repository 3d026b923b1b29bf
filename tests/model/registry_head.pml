/* The registry's HEAD: compare-and-set, an append-only log, crash and restart.
 *
 * Clients make proposals against the head they read and ask for their commit. One committer owns HEAD and the
 * log. For each request it
 *     looks whether that very proposal is committed already (then the answer is `done` again),
 *     compares the proposal's {version, prev} with HEAD (`mismatch` when they differ),
 *     writes the commit record, syncs, advances HEAD, acknowledges, broadcasts.
 * A checkpointer signs the root of what HEAD covers. A crash may come between any two steps, recovery's steps
 * included: memory, queue and connections are gone; of the log stays what was synced, and of what was only
 * written any part. Recovery takes the last whole record as HEAD.
 *
 * Promised, whatever happens:
 *   [HD-1] No two artifacts at one version, over all that anyone outside was ever told.
 *   [HD-2] What was acknowledged is in the log after every later crash.
 *   [HD-3] What was broadcast is in the log after every later crash; broadcasts rise.
 *   [HD-4] HEAD grows by one version at a time, each commit on top of the one before it.
 *   [HD-5] No two checkpoints of one size have different roots.
 *   [HD-6] A commit asked for again gets the same answer: who won is never told `mismatch`.
 *   [HD-7] With finitely many crashes and a fair scheduler every version is in the end committed and
 *         acknowledged (ltl progress), and every client is answered (ltl answered).
 *
 * Left out: approvals, quorum and the durability of proposals (a client keeps its own), retention, and the
 * subscribers' queues, which are explored in registry_models.cpp.
 *
 * spin.py runs it, and each variant that is wrong on purpose, which must be refuted:
 *   NO_CAS                 commits without comparing with HEAD
 *   ACK_BEFORE_SYNC, BROADCAST_BEFORE_SYNC, HEAD_BEFORE_SYNC, SIGN_BEFORE_SYNC
 *                          tells of a commit that a crash can still take
 *   RECOVER_SHORT          forgets the last record
 *   RECOVER_UNSYNCED       serves a record that was read back but never synced
 *   KEEP_TORN              appends behind a torn record
 *   FORGET_DONE            does not know a commit that is asked for again
 *   NO_RETRY               clients whose connection broke wait for ever
 */
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef LAST
#define LAST 3      /* versions 1..LAST are there to be won; genesis is version 0 */
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1  /* how often a client gives up a wait and asks again, all clients together */
#endif

/* A hash that cannot collide: it spells out who won each version so far. */
#define GENESIS 1
#define chain(prev, who) ((prev) * (CLIENTS + 1) + (who) + 1)
#define parent(hash) ((hash) / (CLIENTS + 1))

#define TORN 0      /* the hash of a record that is not whole: its checksum fails */
#define SLOTS (LAST + CRASHES + 2)

mtype = { idle, waiting, done, mismatch, gone };

typedef Record { byte version; byte hash };

/* ---- the disk ---- */
Record file[SLOTS];    /* what a read of the file gives now */
byte length;           /* slots in the file, page cache included */
byte synced;           /* of these, how many no crash can take */

/* ---- the memory of the process; a crash clears it ---- */
bool crashed = true;   /* it starts as it restarts: by recovery */
bool serving = false;  /* recovery is over: HEAD may be read, requests are taken */
Record head;
chan queue = [2] of { byte, bit, byte, byte, byte };  /* client, attempt, version, prev, hash */

/* ---- connections: the client's side of a request ---- */
mtype answer[CLIENTS] = idle;
bit attempt[CLIENTS];  /* flips when a client gives up: an answer to the attempt before reaches nobody */

/* ---- what the world was told; nothing clears it ---- */
byte seen[LAST + 1];   /* the artifact of each version */
byte acknowledged, announced;
byte root_of[LAST + 1];  /* signed checkpoints, by size less one */
byte timeouts = TIMEOUTS;

inline told(at, artifact) {
  assert(seen[at] == 0 || seen[at] == artifact);  /* [HD-1] */
  seen[at] = artifact
}

/* Is this very proposal in the log that HEAD covers? */
#define committed(at, artifact) (at <= head.version && file[at].hash == artifact)

inline reply(verdict) {
  if
  :: attempt[client] == try && answer[client] == waiting -> answer[client] = verdict
  :: else  /* it has given up this attempt */
  fi
}

inline acknowledge() {
  d_step {
    told(version, hash);
    if
    :: version > acknowledged -> acknowledged = version
    :: else
    fi;
    reply(done)
  }
}

inline broadcast() {
  d_step {
    told(version, hash);
    assert(version > announced);  /* [HD-3] */
    announced = version
  }
}

/* A write is not one step: a crash may find the record half written. */
inline write_record() {
  d_step {
    assert(length < SLOTS);
    file[length].version = version;
    file[length].hash = TORN;
    length++
  }
  file[length - 1].hash = hash
}

inline sync() { synced = length }

inline advance() {
  d_step {
    told(version, hash);  /* from here on anybody may read it */
    assert(version == head.version + 1 && parent(hash) == head.hash);  /* [HD-4] */
    head.version = version;
    head.hash = hash
  }
}

inline cut(to) {
  do
  :: length > to -> length--; file[length].version = 0; file[length].hash = 0
  :: else -> break
  od
}

/* Cuts the file behind its last whole record: a record appended behind a torn one would never be read. */
inline recover() {
  d_step {
    whole = 0;
    do
    :: whole < length && file[whole].hash != TORN -> whole++
    :: else -> break
    od;
#ifdef RECOVER_SHORT
    if
    :: whole > 1 -> whole--
    :: else
    fi;
#endif
#ifndef KEEP_TORN
    cut(whole);
#endif
    if
    :: synced > length -> synced = length
    :: else
    fi
  }
  /* The last record may have been written but not synced by the process before: it is there to be read, yet
   * the next crash could take it. Nobody hears of it before that has become impossible. */
#ifndef RECOVER_UNSYNCED
  sync();
#endif
  d_step {
    head.version = file[whole - 1].version;
    head.hash = file[whole - 1].hash;
    assert(acknowledged <= head.version);                        /* [HD-2] */
    assert(announced <= head.version);                           /* [HD-3] */
    v = 1;
    do
    :: v <= head.version ->
       assert(file[v].version == v);                             /* [HD-4] */
       assert(parent(file[v].hash) == file[v - 1].hash);         /* [HD-4] */
       assert(seen[v] == 0 || seen[v] == file[v].hash);          /* [HD-1] */
       v++
    :: else -> break
    od;
    told(head.version, head.hash);
    v = 0;
    whole = 0;
    serving = true
  }
}

proctype Committer() {
  byte client, version, prev, hash, whole, v;
  bit try;
  do
  :: {
       recover();
end_serve:
       do
       :: queue?client, try, version, prev, hash ->
          if
#ifndef FORGET_DONE
          :: committed(version, hash) -> acknowledge()
#endif
#ifdef NO_CAS
#define compares true
#else
#define compares (version == head.version + 1 && prev == head.hash)
#endif
#ifdef FORGET_DONE
          :: !compares ->
#else
          :: !committed(version, hash) && !compares ->
#endif
             d_step {
               assert(!committed(version, hash));                /* [HD-6] */
               reply(mismatch)
             }
          :: !committed(version, hash) && compares ->
             write_record();
#ifdef ACK_BEFORE_SYNC
             acknowledge();
#endif
#ifdef BROADCAST_BEFORE_SYNC
             broadcast();
#endif
#ifdef HEAD_BEFORE_SYNC
             advance();
             sync();
#else
             sync();
             advance();
#endif
#ifndef ACK_BEFORE_SYNC
             acknowledge();
#endif
#ifndef BROADCAST_BEFORE_SYNC
             broadcast()
#endif
          fi;
          d_step { client = 0; try = 0; version = 0; prev = 0; hash = 0 }
       od
     } unless { crashed };
     d_step { client = 0; try = 0; version = 0; prev = 0; hash = 0; whole = 0; v = 0; crashed = false }
  od
}

/* Reads HEAD and signs what the log holds for it. What it signs is read back from the log, not from memory. */
proctype Checkpointer() {
#ifdef SIGN_BEFORE_SYNC
#define signable (length - 1)
#else
#define signable head.version
#endif
  byte size;
end_pause:
  do
  :: d_step {
       serving && file[signable].hash != TORN && root_of[signable] != file[signable].hash ->
       size = signable;
       assert(root_of[size] == 0);                               /* [HD-5] */
       root_of[size] = file[size].hash;
       size = 0
     }
  od
}

proctype Client(byte me) {
  byte version, prev, hash;
  do
  :: d_step {
       serving && head.version < LAST ->
       version = head.version + 1;
       prev = head.hash;
       hash = chain(prev, me)
     }
ask:
     atomic {
       serving && nfull(queue) ->
       answer[me] = waiting;
       queue!me, attempt[me], version, prev, hash
     }
     if
     :: d_step { answer[me] == done -> assert(seen[version] == hash) }
     :: d_step { answer[me] == mismatch -> assert(seen[version] != hash) }  /* [HD-6] */
#ifndef NO_RETRY
     :: answer[me] == gone -> goto ask
#endif
     :: d_step { answer[me] == waiting && timeouts > 0 -> timeouts--; attempt[me] = 1 - attempt[me] } goto ask
     fi;
     d_step { answer[me] = idle; version = 0; prev = 0; hash = 0 }
  :: serving && head.version == LAST -> break
  od
}

/* The environment: kills the process, or cuts the power, at any moment. */
proctype Crash() {
  byte left = CRASHES, i, client, version, prev, hash;
  bit try;
end_calm:
  do
  :: atomic {
       left > 0 && !crashed ->
       left--;
       crashed = true;
       serving = false;
       head.version = 0;
       head.hash = 0;
       do
       :: nempty(queue) -> queue?client, try, version, prev, hash
       :: empty(queue) -> break
       od;
       for (i : 0 .. CLIENTS - 1) {
         if
         :: answer[i] == waiting -> answer[i] = gone
         :: answer[i] == done || answer[i] == mismatch -> answer[i] = gone  /* lost on its way */
         :: answer[i] != waiting                                           /* or it arrives */
         fi
       }
       if
       :: true  /* killed: the page cache lives on */
       :: length > synced ->  /* power lost: any part of what was not synced is kept, its end perhaps torn */
          do
          :: length > synced -> length--; file[length].version = 0; file[length].hash = 0
          :: break
          od;
          if
          :: length > synced -> file[length - 1].hash = TORN
          :: true
          fi;
          synced = length
       fi;
       i = 0; client = 0; try = 0; version = 0; prev = 0; hash = 0
     }
  od
}

init {
  byte i;
  atomic {
    file[0].hash = GENESIS;
    length = 1;
    synced = 1;
    seen[0] = GENESIS;
    root_of[0] = GENESIS;
    run Committer();
    run Checkpointer();
    for (i : 0 .. CLIENTS - 1) { run Client(i) }
    i = 0;
    run Crash()
  }
}

ltl progress { <> (acknowledged == LAST) }
/* Of the first client: the others differ from it in nothing but their number. */
ltl answered { [] ((answer[0] != idle) -> <> (answer[0] == idle)) }
