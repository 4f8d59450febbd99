package host

import (
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/worker"
)

// NewTokens returns tokens for [Options] that workers hold, see [worker.New]. exe is this
// program's absolute path.
func NewTokens(exe string, drivers hsm.Drivers) worker.Tokens {
	return worker.New(worker.Options{Exe: exe, Codes: message.Codes(), Dismissed: message.ErrLocked}, drivers)
}
