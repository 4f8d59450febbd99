package loopback

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// Endpoint is where the bridge listens and how to recognize it.
type Endpoint struct {
	Port int
	// CAPEM is the certificate of the CA that vouches for the bridge.
	CAPEM []byte

	folder folder
}

// KnownTo reports whether a client with these authorities, as PEM, can verify the bridge.
func (e Endpoint) KnownTo(authorities []byte) bool {
	own := certificates(e.CAPEM)
	return len(own) > 0 && slices.ContainsFunc(certificates(authorities),
		func(der []byte) bool { return bytes.Equal(der, own[0]) })
}

// certificates are those in PEM, as DER.
func certificates(text []byte) [][]byte {
	var all [][]byte
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return all
		}
		if block.Type == "CERTIFICATE" {
			all = append(all, block.Bytes)
		}
	}
}

// URL is the server URL of the enrollment called name.
func (e Endpoint) URL(name string) string {
	return "https://" + e.Address() + PathPrefix + name
}

// Address is the host and port the bridge listens on.
func (e Endpoint) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(e.Port)) }

// ErrPortTaken says that another program listens on the bridge's port.
var ErrPortTaken = errors.New("the bridge's port is taken")

// TakenHint is the next step where another program listens on the bridge's port.
func (e Endpoint) TakenHint() string {
	return fmt.Sprintf("find it with `ss -ltnp 'sport = :%d'` or `lsof -iTCP:%d` and stop it, "+
		"or give the bridge another port: %s", e.Port, e.Port, e.folder.replace())
}

// Listen takes the bridge's port, on 127.0.0.1 only. [ErrPortTaken] if another
// program has it.
func Listen(ep Endpoint) (net.Listener, error) {
	l, err := net.Listen("tcp4", ep.Address())
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, hint.With(fmt.Errorf("%w: another program listens on %s", ErrPortTaken, ep.Address()), ep.TakenHint())
	}
	if err != nil {
		return nil, fmt.Errorf("bridge: %w", err)
	}
	return l, nil
}

// PathPrefix precedes the enrollment's name in the bridge's paths. kubectl keys
// its discovery cache by URL: clusters on one URL would mix theirs up.
const PathPrefix = "/c/"

// SplitPath cuts /c/NAME off a request target, keeping the rest to the byte.
// name is nil where the target has none, as with "kubectl proxy", which leaves
// out the path of its server: then the certificate alone says whose it is. No
// path of an API server begins with /c.
func SplitPath(target string) (name *string, rest string) {
	rest, ok := strings.CutPrefix(target, strings.TrimSuffix(PathPrefix, "/"))
	if !ok || rest != "" && rest[0] != '/' && rest[0] != '?' {
		return nil, target
	}
	rest = strings.TrimPrefix(rest, "/")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	found := rest[:end]
	if rest = rest[end:]; !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	return &found, rest
}
