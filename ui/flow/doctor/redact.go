package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/kubeconfig"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
)

// redactor replaces what names a person, machine, server or token. It knows
// what it has to look for: the names come from the same places as the report.
// What is gone from there, but not from the logs, is known by its shape, see
// [shapes].
type redactor struct {
	names []replacement
}

type replacement struct{ name, by string }

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
	contexts, _ := kubeconfig.DefaultRules(o.Env.Kubeconfig).List(ctx) // unreadable contexts need no redaction
	for i, k := range contexts {
		r.add(k.Name, fmt.Sprintf("<context-%d>", i+1))
		r.add(k.Cluster.Name, fmt.Sprintf("<cluster-%d>", i+1))
		r.add(k.User.Name, fmt.Sprintf("<user-%d>", i+1))
		r.add(k.Namespace, fmt.Sprintf("<namespace-%d>", i+1))
		r.server(k.Cluster.Server, fmt.Sprintf("<server-%d>", i+1))
	}
	for i, path := range kubeconfig.DefaultRules(o.Env.Kubeconfig).Paths() {
		r.add(path, fmt.Sprintf("<kubeconfig-%d>", i+1))
	}
	all, _ := enrollment.NewStore(o.Env.Dirs).List() // unreadable records need no redaction
	for i, e := range all {
		r.add(e.Name, fmt.Sprintf("<enrollment-%d>", i+1))
		r.add(e.User, fmt.Sprintf("<subject-%d>", i+1))
		for j, g := range e.Groups {
			r.add(g, fmt.Sprintf("<group-%d.%d>", i+1, j+1))
		}
		r.add(e.KeyHash, fmt.Sprintf("<key-%d>", i+1))
		r.add(e.Key.Serial, fmt.Sprintf("<serial-%d>", i+1))
		r.add(e.Key.Token, fmt.Sprintf("<token-%d>", i+1))
		n := len(contexts) + i + 1
		r.server(e.Cluster.Server, fmt.Sprintf("<server-%d>", n))
		r.add(e.Cluster.TLSServerName, fmt.Sprintf("<server-%d>", n))
		r.server(e.Cluster.ProxyURL, fmt.Sprintf("<proxy-%d>", n))
	}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		r.server(o.Getenv(name), "<proxy>")
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
	return r
}

// dull are names that say nothing of anybody but are part of many words.
var dull = []string{"root", "admin", "default", "kubernetes", "cluster", "user", "localhost", "token", "kubehsm",
	"agent", "none"}

// add has name replaced, if it says something. The first placeholder stays.
func (r *redactor) add(name, by string) {
	if len(name) < 2 || slices.Contains(dull, strings.ToLower(name)) ||
		slices.ContainsFunc(r.names, func(o replacement) bool { return o.name == name }) {
		return
	}
	r.names = append(r.names, replacement{name, by})
}

// recorded adds what the record of the agent names: it may be gone from
// everywhere else.
func (r *redactor) recorded(rec audit.Record) {
	r.add(rec.Enrollment, "<former-enrollment>")
	r.server("https://"+rec.Server, "<former-server>")
	r.add(rec.Key, "<former-key>")
	r.add(rec.Token.Serial, "<former-serial>")
	r.add(rec.Token.Token, "<former-token>")
}

// server adds the host of an address that is not of this machine.
func (r *redactor) server(address, by string) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || isLoopback(u.Hostname()) {
		return
	}
	r.add(u.Hostname(), by)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (r *redactor) redact(b []byte) []byte {
	for _, s := range secrets() {
		b = s.replace(b)
	}
	// The longest first: one may be part of another.
	slices.SortStableFunc(r.names, func(a, b replacement) int { return cmp.Compare(len(b.name), len(a.name)) })
	for _, n := range r.names {
		b = n.replace(b)
	}
	for _, s := range shapes() {
		b = s.replace(b)
	}
	return b
}

// replace replaces the name in each way in which it may be written. A short one
// is part of many words, so it has to stand alone.
func (n replacement) replace(b []byte) []byte {
	if len(n.name) < 4 {
		alone := regexp.MustCompile(`(^|[^\pL\pN_<-])` + regexp.QuoteMeta(n.name) + `($|[^\pL\pN_>-])`)
		for range 2 { // neighbours share what is between them
			b = alone.ReplaceAll(b, []byte("${1}"+n.by+"${2}"))
		}
		return b
	}
	quoted := strconv.Quote(n.name)
	for _, written := range []string{n.name, url.PathEscape(n.name), url.QueryEscape(n.name), // in URIs
		quoted[1 : len(quoted)-1],                 // in logs
		strings.ReplaceAll(n.name, "'", `'\''`)} { // in commands
		in, err := json.Marshal(written)
		if err != nil {
			continue // no string fails
		}
		b = bytes.ReplaceAll(b, []byte(written), []byte(n.by))
		b = bytes.ReplaceAll(b, in[1:len(in)-1], []byte(n.by))
	}
	return b
}
