// Package calm keeps Go's monitor thread asleep in the processes that a client
// starts for one answer. That thread looks around every 20 microseconds in a
// program's first milliseconds, and as often as not on the processor that sets the
// program up or loads the token's library: some 45 interruptions in one signature.
//
// A timer slack (Linux, PR_SET_TIMERSLACK(2const)) of 5 ms lets it sleep. A thread
// has that of the one that started it, so it is set before Go starts any: importing
// this package is all there is to do. Such processes ask and time out up to 5 ms
// later for it; an agent that one of them starts has the system's slack again.
package calm
