package doctor

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// redactor replaces what names a person, machine, server or token. It knows
// what it has to look for: the names come from the same places as the report.
type redactor struct {
	names []replacement // the longest first: one may be part of another
}

type replacement struct{ name, by string }

// addresses are IPv4 addresses, and IPv6 ones with a zone of their own; those
// of the loopback are no secret and tell of the bridge.
var addresses = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{0,4}){3,7}\b`)

func newRedactor(ctx context.Context, o *Options) *redactor {
	r := &redactor{}
	if home, err := os.UserHomeDir(); err == nil {
		r.add(home, "~")
	}
	for _, dir := range []string{o.Env.Dirs.Home, o.Getenv("XDG_RUNTIME_DIR")} {
		r.add(dir, "<folder>")
	}
	if u, err := user.Current(); err == nil {
		r.add(u.Username, "<login>")
		r.add(u.Name, "<name>")
	}
	if h, err := os.Hostname(); err == nil {
		r.add(h, "<machine>")
	}
	contexts, _ := kubeconfig.DefaultRules(o.Env.Kubeconfig).List(ctx) // those that can be read
	for i, k := range contexts {
		r.add(k.Name, fmt.Sprintf("<context-%d>", i+1))
		r.add(k.Cluster.Name, fmt.Sprintf("<cluster-%d>", i+1))
		r.add(k.User.Name, fmt.Sprintf("<user-%d>", i+1))
		r.server(k.Cluster.Server, i+1)
	}
	for i, path := range kubeconfig.DefaultRules(o.Env.Kubeconfig).Paths() {
		r.add(path, fmt.Sprintf("<kubeconfig-%d>", i+1))
	}
	all, _ := enrollment.NewStore(o.Env.Dirs).List() // those that can be read
	for i, e := range all {
		r.add(e.Name, fmt.Sprintf("<enrolment-%d>", i+1))
		r.add(e.User, fmt.Sprintf("<subject-%d>", i+1))
		for j, g := range e.Groups {
			r.add(g, fmt.Sprintf("<group-%d.%d>", i+1, j+1))
		}
		r.add(e.KeyHash, fmt.Sprintf("<key-%d>", i+1))
		r.add(e.Key.Serial, fmt.Sprintf("<serial-%d>", i+1))
		r.add(e.Key.Token, fmt.Sprintf("<token-%d>", i+1))
		r.server(e.Cluster.Server, len(contexts)+i+1)
	}
	for _, d := range o.Env.Drivers {
		listing, err := d.List(ctx)
		if err != nil {
			continue
		}
		for i, t := range listing.Tokens {
			r.add(t.Serial, fmt.Sprintf("<%s-serial-%d>", t.Scheme, i+1))
			r.add(t.Label, fmt.Sprintf("<%s-token-%d>", t.Scheme, i+1))
		}
	}
	slices.SortStableFunc(r.names, func(a, b replacement) int { return cmp.Compare(len(b.name), len(a.name)) })
	return r
}

// dull are names that say nothing of anybody but are part of many words.
var dull = []string{"root", "admin", "default", "kubernetes", "cluster", "user", "localhost", "token", "kubehsm", "agent", "none"}

// add has name replaced, if it says something. The first placeholder stays.
func (r *redactor) add(name, by string) {
	if len(name) < 3 || slices.Contains(dull, strings.ToLower(name)) ||
		slices.ContainsFunc(r.names, func(o replacement) bool { return o.name == name }) {
		return
	}
	r.names = append(r.names, replacement{name, by})
}

func (r *redactor) server(address string, n int) {
	u, err := url.Parse(address)
	if err != nil || loopback(u.Hostname()) {
		return
	}
	r.add(u.Hostname(), fmt.Sprintf("<server-%d>", n))
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (r *redactor) redact(b []byte) []byte {
	for _, n := range r.names {
		b = bytes.ReplaceAll(b, []byte(n.name), []byte(n.by))
		if escaped := url.PathEscape(n.name); escaped != n.name { // in token URIs
			b = bytes.ReplaceAll(b, []byte(escaped), []byte(n.by))
		}
	}
	return addresses.ReplaceAllFunc(b, func(a []byte) []byte {
		if ip := net.ParseIP(string(a)); ip == nil || ip.IsLoopback() || ip.IsUnspecified() {
			return a
		}
		return []byte("<address>")
	})
}
