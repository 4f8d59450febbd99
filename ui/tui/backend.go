package tui

import (
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/tui/screen/requests"
	"github.com/kubehsm/kubehsm/ui/tui/screen/token"
)

// Backend is what is left of what screens are handed on.
type Backend interface {
	token.Backend
	requests.Backend
}

type backend struct{ *env.Env }
