//go:build linux && cgo

package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/test/controlplane"
	e2e "github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// PIN is that of everybody's card: a PIV PIN has at most 8 digits.
const PIN = "73916402"

// Group is that of everybody on the roster; its members may look at the cluster.
const Group = "dev"

// Context is the context that the join line makes.
const Context = "work"

// Desk is who works at the help desk.
const Desk = "hannah"

// Person is somebody on the roster, with a card.
type Person struct {
	Name   string
	Serial uint32
}

// Card is a new card of the person's, made by maker, with [PIN].
func (p Person) Card(maker *vcard.CA) *vcard.Card {
	card := vcard.New(vcard.Config{Serial: p.Serial, CA: maker})
	card.SetPIN(PIN)
	return card
}

// List is the list of people that `kubehsm roster import` reads.
func List(all []Person) string {
	var b strings.Builder
	b.WriteString("serial,owner,groups,horizon\n")
	for _, p := range all {
		fmt.Fprintf(&b, "%d,%s,%s,\n", p.Serial, p.Name, Group)
	}
	return b.String()
}

// Fleet is a cluster with the approver in it, and the folder that people have their homes in.
type Fleet struct {
	cluster *controlplane.Cluster
	binary  string // kubehsm
	// Kubeconfig is that of the help desk, Line the join line of everybody.
	Kubeconfig, Line string
}

// Open has the help desk put people on the roster of c, and make the join line, with further flags. Their list is
// written to the file list; binary is kubehsm, and at is the desk's home.
func Open(ctx context.Context, c *controlplane.Cluster, binary, list string, at *e2e.Lab, all []Person,
	flags ...string) (*Fleet, error) {
	_, err := c.Admin(ctx, "", "create", "clusterrolebinding", Group, "--clusterrole=view", "--group="+Group)
	if err != nil {
		return nil, err
	}
	desk, err := c.KubeconfigFor(Desk, "kubehsm:helpdesk")
	if err != nil {
		return nil, err
	}
	f := &Fleet{cluster: c, binary: binary, Kubeconfig: desk}
	if err := os.WriteFile(list, []byte(List(all)), 0o600); err != nil {
		return nil, err
	}
	if _, err := f.AtDesk(ctx, at, "roster", "import", list, "--yes"); err != nil {
		return nil, err
	}
	line, err := f.AtDesk(ctx, at, append([]string{"roster", "line", "--name", Context}, flags...)...)
	f.Line = strings.TrimSpace(line)
	return f, err
}

// AtDesk runs kubehsm at the help desk, and returns what it wrote to standard output.
func (f *Fleet) AtDesk(ctx context.Context, at *e2e.Lab, args ...string) (string, error) {
	return e2e.Succeeded(at.Run(ctx, e2e.Run{Env: []string{"KUBECONFIG=" + f.Kubeconfig}}, at.Binary, args...))
}

// Home makes a home with kubehsm in dir, which is made if needed; it has no credential of the cluster's and no
// token in software.
func Home(c *controlplane.Cluster, binary, dir string) (*e2e.Lab, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return e2e.New(dir, e2e.Options{Cluster: c, Binary: binary, Tokens: []hsmtest.SoftToken{}})
}

// Come has a person join with the line, in a home of theirs in dir: their card must be the only one. Flags are
// added to the line. The home's agent is stopped.
func (f *Fleet) Come(ctx context.Context, p Person, dir string, flags ...string) (err error) {
	home, err := Home(f.cluster, f.binary, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, home.Close(context.WithoutCancel(ctx))) }()
	line := f.Line + " --accept-risk default-secrets --yes --pin-fd 3"
	for _, flag := range flags {
		line += " " + flag
	}
	if _, err := e2e.Succeeded(home.Run(ctx, e2e.Run{PIN: PIN}, "sh", "-c", line)); err != nil {
		return fmt.Errorf("%s joins: %w", p.Name, err)
	}
	who, err := e2e.Succeeded(home.Kubectl(ctx, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"))
	if err == nil && who != p.Name {
		err = fmt.Errorf("kubectl is %q, not %s", who, p.Name)
	}
	return err
}
