package prompt

import (
	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

const unlockHint = "run `kubehsm unlock` in a terminal, then try again"

// None asks nobody: the answer is [hsm.ErrNoTerminal] at once, with a hint.
func None() ask.Func { return ask.Nobody(hint.With(hsm.ErrNoTerminal, unlockHint)) }
