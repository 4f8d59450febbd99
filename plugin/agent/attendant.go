package agent

import "github.com/kubehsm/kubehsm/plugin/process"

// needsAttendant tells whether the client has to leave somebody behind who can
// ask, and has not yet: then it must ask in full.
func (a *agent) needsAttendant(*target, process.ID) bool { return false }
