package service

import (
	"crypto"

	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
)

// call is what a client asks for, in Go's types; opts is nil for a certificate.
type call struct {
	config map[string]string
	digest []byte
	opts   crypto.SignerOpts
}

func (c call) request() (externalsigner.Request, error) {
	return wire.FromParts(c.config, c.digest, c.opts)
}
