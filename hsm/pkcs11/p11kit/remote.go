package p11kit

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// ServerAddress is the environment variable by which p11-kit's client module finds its
// server. It is written as remote: is in a .module file.
const ServerAddress = "P11_KIT_SERVER_ADDRESS"

// TrustModel is the model of the token in which p11-kit shows the certificates that the
// system trusts, also through its server and its proxy. It has no keys.
const TrustModel = "p11-kit-trust"

// Client is the path of p11-kit's client module, which reaches what is remote.
func (p Places) Client() string { return p.Resolve("p11-kit-client.so") }

// IsClient recognizes p11-kit's client module. real is the module's identity.
func IsClient(real string) bool { return strings.HasPrefix(filepath.Base(real), "p11-kit-client") }

// serverSocket is where a p11-kit server of this user listens that has been told no other
// place.
func serverSocket() string {
	dir := cmp.Or(os.Getenv("XDG_RUNTIME_DIR"), "/run/user/"+strconv.Itoa(os.Getuid()))
	return filepath.Join(dir, "p11-kit", "pkcs11")
}

// Server is the address that p11-kit's client module goes to.
func (p Places) Server() string { return cmp.Or(os.Getenv(ServerAddress), "unix:path="+p.server) }

// alone tells that the module with that identity is a client without a server, and nobody
// has said that there is one.
func (p Places) alone(real string) bool {
	if !IsClient(real) || os.Getenv(ServerAddress) != "" {
		return false
	}
	info, err := os.Stat(p.server)
	return err != nil || info.Mode().Type() != os.ModeSocket
}

// Unreachable says that nobody listens at the address of a p11-kit server, where that can
// be found out without starting anything; nil otherwise. The client module itself says
// only that there are no tokens.
func Unreachable(address string) error {
	path, ok := strings.CutPrefix(address, "unix:path=")
	if !ok {
		return nil
	}
	path, _, _ = strings.Cut(path, ";")
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		return c.Close()
	}
	return hint.With(fmt.Errorf("%w: no p11-kit server answers at %s: %w", hsm.ErrModule, path, err),
		"start `p11-kit server` again on the machine with the token; if its socket is forwarded, forward it again")
}

// unusable says what is wrong with a remote module's address, as p11-kit has it.
func (m Module) unusable() error {
	for _, start := range []string{"|", "unix:path=/", "vsock:"} {
		if m.Remote == "" || strings.HasPrefix(m.Remote, start) {
			return nil
		}
	}
	return hint.With(fmt.Errorf("%w: remote: %s is not an address that p11-kit supports", hsm.ErrModule, m.Remote),
		"use |COMMAND, unix:path=/SOCKET or vsock:cid=N;port=N")
}
