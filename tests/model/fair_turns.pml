/* The gateway's order of tenants: deficit round robin over slots, with a bounded queue of grants that drops its
 * oldest, and a drain that ends at a deadline.
 *
 * Each of two tenants, the second of twice the weight, sends its requests at any moment, each of any cost. The
 * scheduler grants while a slot is free: a tenant at the head of the ring gets its quantum and is served while its
 * deficit covers the next cost; a tenant that holds its share of the slots steps aside and keeps its place. A grant
 * goes into `sched`; where that is full its oldest grant is dropped. Workers start grants, and requests end, at any
 * moment. Draining begins at any moment and its deadline comes at any later one.
 *
 * Promised, whatever happens:
 *   [FM-1] While both tenants have a backlog and neither steps aside they take turns, and each turn is worth the
 *          tenant's weight in units, within a request: so what they get is in proportion to the weights.
 *   [FM-2] At most SLOTS requests hold a slot, a tenant no more than its share, and `sched` no more than its places.
 *   [FM-3] A tenant that begins to wait has no credit.
 *   [FM-4] Once nothing is left to do, every request that was let in was finished, or told 503 since its grant was
 *          dropped, or told 503 at the drain's deadline; and no slot is held.
 *
 * spin.py runs it, and each variant that is wrong on purpose, which must be refuted:
 *   KEEP_CREDIT      an idle tenant keeps its deficit
 *   SHARE_PLUS_ONE   a tenant may hold one slot more than its share
 *   NO_TURNS         the tenant at the head stays there while it has requests
 *   SAME_QUANTUM     the weight does not count
 *   DROP_UNTOLD      the client of a dropped grant is not told
 *   DROP_KEEPS_SLOT  a dropped grant keeps its slot
 *   DRAIN_FORGETS    the deadline does not end a wait
 *   AHEAD            the scheduler grants without a free slot
 */
#ifndef EACH
#define EACH 2      /* requests of a tenant */
#endif
#ifndef SLOTS
#define SLOTS 3
#endif
#ifndef SCHED
#define SCHED 1
#endif
#define ALL (2 * EACH)
#define QUANTUM 2
#define MOST 2      /* the largest cost */
#define WEIGHT(t) ((t) + 1)
#define OF(r) ((r) / EACH)

mtype = { fresh, waits, granted, runs, finished, dropped, drained, refused };

byte cost_now;
mtype state[ALL];
byte cost[ALL];
chan queue[2] = [EACH] of { byte };
chan sched = [SCHED] of { byte };
short deficit[2];
bool visited[2];
byte held[2];
byte out;
byte first;              /* the tenant at the head of the ring */
short used[2];           /* units served in the present visit */
byte visits[2];          /* since both have had a backlog and neither stepped aside */
bool draining, deadline;
byte clients_done;

#define WAITS(t) (len(queue[t]) > 0)
#ifdef SHARE_PLUS_ONE
#define EXTRA 1
#else
#define EXTRA 0
#endif
#define SHARE(t) ((SLOTS * WEIGHT(t) + 2) / 3)
#define ALONE (SLOTS * 3 / 4)
#define BOUND(t) ((WAITS(1 - (t)) -> (SHARE(t) < ALONE -> SHARE(t) : ALONE) : ALONE) + EXTRA)
#define TRUE_BOUND(t) (WAITS(1 - (t)) -> (SHARE(t) < ALONE -> SHARE(t) : ALONE) : ALONE)
#define MAY(t) (WAITS(t) && held[t] < BOUND(t))
#ifdef AHEAD
#define FREE true
#else
#define FREE (out < SLOTS)
#endif

inline forget_since() { visits[0] = 0; visits[1] = 0 }

inline give_back(r) { held[OF(r)]--; out-- }

proctype client(byte t) {
  byte i, r;
  do
  :: i < EACH ->
     atomic {
       r = t * EACH + i;
       if
       :: draining -> state[r] = refused
       :: else ->
          select(cost_now : 1 .. MOST);
          cost[r] = cost_now;
          state[r] = waits;
          if
          :: !WAITS(t) ->
             assert(deficit[t] <= 0);       /* FM-3 */
             forget_since();
             first = (WAITS(1 - t) -> 1 - t : t)
          :: else
          fi;
          queue[t]!r
       fi;
       i++
     }
  :: else -> break
  od;
  clients_done++
}

inline rest(t) {
  visited[t] = false;
#ifndef KEEP_CREDIT
  deficit[t] = (deficit[t] > 0 -> 0 : deficit[t]);
#endif
  first = 1 - t;
  forget_since()
}

inline end_visit(t) {
  visited[t] = false;
#ifndef NO_TURNS
  first = (WAITS(1 - t) -> 1 - t : t)
#endif
}

inline grant(r) {
  if
  :: len(sched) == SCHED ->
     sched?oldest;
#ifndef DROP_UNTOLD
     state[oldest] = dropped;
#endif
#ifndef DROP_KEEPS_SLOT
     give_back(oldest);
#endif
     oldest = 0
  :: else
  fi;
  sched!r;
  state[r] = granted
}

active proctype scheduler() {
  byte t, r, oldest;
end_idle:
  do
  :: atomic {
       !deadline && FREE && (MAY(0) || MAY(1)) ->
       if
       :: MAY(first) -> t = first
       :: else -> t = 1 - first; forget_since()     /* the other steps aside, or has nothing */
       fi;
       do
       :: !visited[t] ->
#ifdef SAME_QUANTUM
          deficit[t] = deficit[t] + QUANTUM;
#else
          deficit[t] = deficit[t] + QUANTUM * WEIGHT(t);
#endif
          visited[t] = true;
          used[t] = 0;
          if
          :: WAITS(1 - t) ->
             visits[t]++;
             assert(visits[t] <= visits[1 - t] + 1)  /* FM-1: they take turns */
          :: else
          fi
       :: else -> break
       od;
       queue[t]?<r>;
       if
       :: deficit[t] < cost[r] -> end_visit(t)
       :: else ->
          queue[t]?r;
          assert(held[t] < TRUE_BOUND(t));           /* FM-2 */
          deficit[t] = deficit[t] - cost[r];
          held[t]++;
          out++;
          assert(out <= SLOTS);                     /* FM-2 */
          used[t] = used[t] + cost[r];
          assert(used[t] < QUANTUM * WEIGHT(t) + MOST);   /* FM-1: no more in a visit than its quantum */
          if
          :: !WAITS(t) -> rest(t)
          :: else ->
             queue[t]?<oldest>;
             if
             :: deficit[t] < cost[oldest] ->
                assert(used[t] > QUANTUM * WEIGHT(t) - MOST);   /* FM-1: and no less */
                end_visit(t)
             :: else
             fi;
             oldest = 0
          fi;
          grant(r)
       fi;
       r = 0; t = 0
     }
#ifndef DRAIN_FORGETS
  :: atomic {
       deadline && (WAITS(0) || WAITS(1)) ->
       t = (WAITS(0) -> 0 : 1);
       queue[t]?r;
       state[r] = drained;
       if
       :: !WAITS(t) -> rest(t)
       :: else
       fi;
       r = 0; t = 0
     }
#endif
  od
}

/* Starts grants. */
active proctype worker() {
  byte r;
end_idle:
  do
  :: atomic { sched?r -> state[r] = runs; r = 0 }
  od
}

/* The upstream: what runs ends. */
#define ENDS(r) atomic { state[r] == runs -> state[r] = finished; give_back(r) }
active proctype upstream() {
end_idle:
  do
  :: ENDS(0)
  :: ENDS(1)
  :: ENDS(2)
  :: ENDS(3)
#if EACH == 3
  :: ENDS(4)
  :: ENDS(5)
#endif
  od
}

active proctype shutdown() {
  draining = true;
  deadline = true
}

#define OPEN(r) (state[r] == fresh || state[r] == waits || state[r] == granted || state[r] == runs)
#if EACH == 2
#define ANY_OPEN (OPEN(0) || OPEN(1) || OPEN(2) || OPEN(3))
#else
#define ANY_OPEN (OPEN(0) || OPEN(1) || OPEN(2) || OPEN(3) || OPEN(4) || OPEN(5))
#endif
/* FM-4. Every step takes something forward, so each schedule comes to an end; this is what it comes to. */
active proctype judge() {
  timeout -> assert(clients_done == 2 && !ANY_OPEN && out == 0 && held[0] == 0 && held[1] == 0)
}

init {
  atomic {
    byte i;
    do
    :: i < ALL -> state[i] = fresh; i++
    :: else -> break
    od;
    run client(0);
    run client(1)
  }
}
