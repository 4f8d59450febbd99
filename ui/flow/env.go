package flow

import (
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/token"
)

// Env has the use cases of this package as methods.
type Env struct{ env.Env }

// on is e for a cluster of the kubeconfig in place of the contexts' own.
func (e *Env) on(cluster string) *Env { return &Env{*e.Env.On(cluster)} }

func (e *Env) access() cluster.Access { return cluster.Access{Env: &e.Env} }

func (e *Env) tokens() token.Tokens { return token.Tokens{Env: &e.Env} }

func (e *Env) keys() token.Keys { return token.Keys{Env: &e.Env} }
