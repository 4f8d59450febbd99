package message

import "github.com/kubehsm/kubehsm/plugin/agent/away"

// Reasons for which a token is locked, as they are on record, beside those of package away.
const (
	LockAsked        = "asked"
	LockRemoved      = "removed"
	LockDisconnected = "disconnected"
	LockIdle         = "idle"
	LockLongest      = "longest-time"
)

// WhyLocked words a reason for which a token was locked, as what follows "locked: "; it is
// "" for a reason that this program does not know.
func WhyLocked(reason string) string {
	switch reason {
	case LockAsked:
		return "you asked for it"
	case LockRemoved:
		return "the token was removed"
	case LockDisconnected:
		return "the connection to the token's server was lost"
	case LockIdle:
		return "the token was not used for a while"
	case LockLongest:
		return "the token was unlocked for the longest time allowed"
	case string(away.Suspend):
		return "the computer was suspended"
	case string(away.ScreenLock):
		return "the screen was locked"
	}
	return ""
}
