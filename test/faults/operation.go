//go:build linux && cgo

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
)

// operation is something that a person does.
type operation struct {
	name   string
	weight int
	// reach is how many points the processes of each role come to, about: a fault
	// strikes at one of them.
	reach map[role]int
	kind  kind
	// plan says what is done now, by the step's numbers; nil if there is no occasion.
	plan func(ctx context.Context, e *episode, r *rand.Rand) (*deed, error)
}

// kind is what matters most about an operation: faults often strike there.
type kind int

const (
	timed  kind = 1 + iota // ordered by the clock
	making                 // makes a key
)

// deed is an operation with all that it is done to.
type deed struct {
	what string
	run  lab.Run
	// program is the lab's if it is empty.
	program string
	args    []string
	// typed has the PIN typed on a terminal.
	typed bool
	// refused tells that the command must fail, and change nothing.
	refused bool
	// before, if not nil, is done before it is run again: what a person whose command
	// failed is told to do.
	before func(ctx context.Context) error
	// once tells that the command, run again after it has succeeded, would do something
	// else: it is not. Did tells whether it has been done, though it failed.
	once bool
	did  func(ctx context.Context) (bool, error)
	// edits tells that it may change the kubeconfig; want are the bytes that must come
	// of it, nil where they are not known before.
	edits bool
	want  []byte
	// done takes what has been done into the model, and compares.
	done func(ctx context.Context, res lab.Result) error
}

// undoing is the name of an operation.
const undoing = "kubeconfig undo"

// operations are all there are.
func operations() []operation {
	return []operation{
		{"enroll", 3, map[role]int{command: 110, agent: 40, worker: 20}, making, enroll},
		{"join", 2, map[role]int{command: 130, agent: 40, worker: 20}, making, join},
		{"migrate", 1, map[role]int{command: 110, agent: 40, worker: 20}, making, migrate},
		{"renew", 3, map[role]int{command: 70, agent: 40, worker: 14}, 0, renew},
		{"kubeconfig set", 5, map[role]int{command: 24}, timed, setEntry},
		{"kubeconfig remove", 3, map[role]int{command: 24}, timed, removeEntry},
		{"kubeconfig use", 5, map[role]int{command: 24}, timed, useContext},
		{undoing, 7, map[role]int{command: 24}, timed, undo},
		{"consent set", 8, map[role]int{command: 12, agent: 8, worker: 4}, 0, consentSet},
		{"lock", 6, map[role]int{command: 3, agent: 8, worker: 3}, 0, lock},
		{"unlock", 6, map[role]int{command: 6, agent: 16, worker: 10}, 0, unlock},
		{"stop", 4, map[role]int{command: 3, agent: 12, worker: 3}, 0, stop},
		{"kubectl get", 6, map[role]int{credential: 6, agent: 24, attendant: 3}, 0, get},
		{"kubectl apply", 4, map[role]int{credential: 6, agent: 24, attendant: 3}, 0, apply},
		{"ticket", 2, map[role]int{command: 14}, 0, ticket},
	}
}

func (e *episode) enrollment(name, user string, args ...string) *deed {
	args = append(args, "--name", name, "--approve-with", e.Cluster.AdminKubeconfig(), "--yes", "-o", "json")
	args = append(args, e.token.enrollArgs(len(e.model.enrolled))...)
	e.begun = name
	return &deed{what: args[0] + " " + name, args: args, run: lab.Run{PIN: e.token.pin()}, edits: true,
		done: func(ctx context.Context, res lab.Result) error {
			if e.model.enrolled[name] == nil {
				e.model.enrolled[name] = &enrolled{name: name, user: user, policy: "session"}
				e.model.order = append(e.model.order, name)
			}
			return e.signedIn(ctx, name)
		}}
}

func enroll(_ context.Context, e *episode, r *rand.Rand) (*deed, error) {
	n := e.model.ofKind("enrolled")
	if r.IntN(3) > 0 { // once more what is there: nothing changes
		if name := e.any(r, func(en *enrolled) bool {
			return strings.HasPrefix(en.name, "enrolled") && en.policy != "always"
		}); name != "" {
			return e.again(name), nil
		}
	}
	if !e.room() || n == 2 {
		return nil, nil
	}
	return e.again(fmt.Sprintf("enrolled%d", n)), nil
}

// again enrolls name, or finds that it is enrolled.
func (e *episode) again(name string) *deed {
	user := e.user(name)
	d := e.enrollment(name, user, "enroll", "--context", lab.Context, "--user", user, "--group", lab.DevelopersGroup)
	if en := e.model.enrolled[name]; en != nil { // in the place it has
		d.args = d.args[:slices.Index(d.args, "--token")]
		d.args = append(d.args, e.token.enrollArgs(slices.Index(e.model.order, name))...)
	}
	return d
}

func join(ctx context.Context, e *episode, _ *rand.Rand) (*deed, error) {
	if !e.room() || e.model.enrolled["joined"] != nil {
		return nil, nil
	}
	user := e.user("joined")
	id, text, err := e.issue(ctx, user)
	if err != nil {
		return nil, err
	}
	d := e.enrollment("joined", user, "join", "--ticket", "-")
	if at := slices.Index(d.args, "--token"); at >= 0 { // The bootstrap token follows.
		d.args[at] = "--hsm"
	}
	d.run.Stdin = text + "\n"
	done := d.done
	d.done = func(ctx context.Context, res lab.Result) error {
		return errors.Join(done(ctx, res), e.endTicket(ctx, id))
	}
	return d, nil
}

func migrate(_ context.Context, e *episode, _ *rand.Rand) (*deed, error) {
	if !e.room() || e.model.enrolled["migrated"] != nil {
		return nil, nil
	}
	return e.enrollment("migrated", lab.Filer, "kubeconfig", "migrate", lab.Context, "--keep-old"), nil
}

func renew(ctx context.Context, e *episode, r *rand.Rand) (*deed, error) {
	name := e.any(r, func(en *enrolled) bool { return en.name != "migrated" && en.policy != "always" })
	if name == "" {
		return nil, nil
	}
	was, err := e.certificate(name)
	if err != nil {
		return nil, err
	}
	return &deed{what: "renew " + name, run: lab.Run{PIN: e.token.pin()}, once: true, edits: true,
		args: []string{"certificate", "renew", name, "--yes", "--with", lab.Context,
			"--approve-with", e.Cluster.AdminKubeconfig(), "-o", "json"},
		did: func(context.Context) (bool, error) { return false, nil }, // to renew twice does no harm
		done: func(ctx context.Context, _ lab.Result) error {
			now, err := e.certificate(name)
			if err == nil && now == was {
				err = errors.New("the certificate is the one of before")
			}
			e.model.enrolled[name].renewals++
			return errors.Join(err, e.signedIn(ctx, name))
		}}, nil
}

func setEntry(_ context.Context, e *episode, r *rand.Rand) (*deed, error) {
	name := e.any(r, nil)
	if name == "" {
		return nil, nil
	}
	args := []string{"kubeconfig", "set", name, "--yes"}
	if r.IntN(2) == 0 {
		args = append(args, "--keep-current")
	}
	return &deed{what: strings.Join(args, " "), args: args, edits: true, done: func(context.Context, lab.Result) error {
		return e.hasEntry(name, true)
	}}, nil
}

func removeEntry(_ context.Context, e *episode, r *rand.Rand) (*deed, error) {
	name := e.any(r, func(en *enrolled) bool { return e.entry(en.name) })
	if name == "" {
		return nil, nil
	}
	return &deed{what: "kubeconfig remove " + name, args: []string{"kubeconfig", "remove", name, "--yes"}, edits: true,
		once: true,
		did:  func(context.Context) (bool, error) { return !e.entry(name), nil },
		done: func(context.Context, lab.Result) error { return e.hasEntry(name, false) }}, nil
}

func useContext(_ context.Context, e *episode, r *rand.Rand) (*deed, error) {
	c, err := e.parsed()
	if err != nil {
		return nil, err
	}
	name := e.any(r, func(en *enrolled) bool { return en.name != c.Current && e.entry(en.name) })
	if name == "" || c.Current != lab.Context && r.IntN(2) == 0 {
		name = lab.Context
	}
	return &deed{what: "kubeconfig use " + name, args: []string{"kubeconfig", "use", name, "--yes"}, edits: true,
		done: func(context.Context, lab.Result) error {
			c, err := e.parsed()
			if err == nil && c.Current != name {
				err = fmt.Errorf("the current context is %q", c.Current)
			}
			return err
		}}, nil
}

// undo takes back the change that was made last, whatever the clock says.
func undo(_ context.Context, e *episode, _ *rand.Rand) (*deed, error) {
	want, ok := e.formerConfig()
	if !ok {
		return nil, nil
	}
	return &deed{what: "kubeconfig undo", args: []string{"kubeconfig", "undo", "--yes"}, edits: true, once: true,
		want: want,
		did: func(context.Context) (bool, error) {
			now, err := e.config()
			return string(now) == string(want), err
		}}, nil
}

var policies = []string{"session", "writes", "always"}

func consentSet(_ context.Context, e *episode, r *rand.Rand) (*deed, error) {
	name := e.any(r, nil)
	if name == "" {
		return nil, nil
	}
	en := e.model.enrolled[name]
	policy := policies[r.IntN(len(policies))]
	d := &deed{what: "consent set " + name + " --policy " + policy,
		args: []string{"consent", "set", name, "--policy", policy, "--yes"}, run: lab.Run{PIN: e.token.pin()}}
	if en.policy != policy {
		switch r.IntN(3) {
		case 0:
			d.what, d.run = d.what+", without the PIN", lab.Run{}
			d.refused = true
		case 1:
			d.typed = true
		}
	}
	before := en.policy
	en.may = []string{before, policy}
	if d.refused {
		en.may = []string{before}
	}
	d.done = func(context.Context, lab.Result) error {
		if !d.refused {
			en.policy = policy
		}
		en.may = nil
		return nil
	}
	return d, nil
}

func lock(_ context.Context, e *episode, _ *rand.Rand) (*deed, error) {
	return &deed{what: "agent lock", args: []string{"agent", "lock"}, done: func(ctx context.Context, _ lab.Result) error {
		return e.locked(ctx)
	}}, nil
}

func unlock(_ context.Context, e *episode, r *rand.Rand) (*deed, error) {
	name := e.any(r, nil)
	if name == "" {
		return nil, nil
	}
	return &deed{what: "unlock " + name, args: []string{"unlock", name}, run: lab.Run{PIN: e.token.pin()},
		done: func(ctx context.Context, _ lab.Result) error { return e.truthful(ctx) }}, nil
}

func stop(_ context.Context, e *episode, _ *rand.Rand) (*deed, error) {
	return &deed{what: "agent stop", args: []string{"agent", "stop"},
		done: func(ctx context.Context, _ lab.Result) error { return e.nobodyLeft(ctx) }}, nil
}

// asked is for those whom kubectl serves.
func (e *episode) asked(name string, r *deed) *deed {
	r.program = e.Cluster.Kubectl()
	r.args = append(r.args, "--context", name)
	r.before = func(ctx context.Context) error { return e.unlock(ctx, name) }
	return r
}

func get(_ context.Context, e *episode, r *rand.Rand) (*deed, error) {
	name := e.any(r, func(en *enrolled) bool { return e.entry(en.name) && en.policy != "always" })
	if name == "" {
		return nil, nil
	}
	return e.asked(name, &deed{what: "kubectl get with " + name, args: []string{"get", "--raw", "/version"}}), nil
}

func apply(_ context.Context, e *episode, r *rand.Rand) (*deed, error) {
	name := e.any(r, func(en *enrolled) bool { return e.entry(en.name) && en.name != "migrated" && en.policy != "always" })
	if name == "" {
		return nil, nil
	}
	value := fmt.Sprint(r.Uint32())
	object := "faults-" + e.user("map")
	d := e.asked(name, &deed{what: "kubectl apply with " + name,
		args: []string{"apply", "--server-side", "--force-conflicts", "-f", "-"},
		run: lab.Run{Stdin: fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap",`+
			`"metadata":{"name":%q,"namespace":"default"},"data":{"value":%q}}`, object, value)}})
	d.refused = e.model.enrolled[name].policy != "session"
	d.done = func(ctx context.Context, _ lab.Result) error {
		out, err := e.Cluster.Admin(ctx, "", "-n", "default", "get", "configmap", object, "--ignore-not-found", "-o",
			"jsonpath={.data.value}")
		if err == nil && (out == value) == d.refused {
			err = fmt.Errorf("the object holds %q, %q was applied, which the policy refuses: %v", out, value, d.refused)
		}
		return err
	}
	return d, nil
}

// ticket makes a ticket.
func ticket(_ context.Context, e *episode, _ *rand.Rand) (*deed, error) {
	e.model.tickets++
	user := e.user(fmt.Sprintf("guest%d", e.model.tickets))
	return &deed{what: "helpdesk ticket", args: e.ticketArgs(user), once: true,
		run: lab.Run{Env: []string{"KUBECONFIG=" + e.Cluster.AdminKubeconfig()}},
		did: func(context.Context) (bool, error) { return false, nil },
		done: func(ctx context.Context, _ lab.Result) error {
			return e.endTickets(ctx, user)
		}}, nil
}

func (e *episode) ticketArgs(user string) []string {
	return []string{"helpdesk", "ticket", "--for", user, "--group", lab.DevelopersGroup, "--ttl", "1h", "-o", "json"}
}

// issue has the help desk make a ticket.
func (e *episode) issue(ctx context.Context, user string) (id, text string, err error) {
	res, err := e.run(ctx, patience, lab.Run{Env: []string{"KUBECONFIG=" + e.Cluster.AdminKubeconfig()}}, e.Binary,
		e.ticketArgs(user)...)
	out, err := lab.Succeeded(res, err)
	if err != nil {
		return "", "", err
	}
	var made struct{ Tickets []struct{ Ticket, ID string } }
	if err := json.Unmarshal([]byte(out), &made); err != nil || len(made.Tickets) != 1 {
		return "", "", fmt.Errorf("%q: %w", out, err)
	}
	return made.Tickets[0].ID, made.Tickets[0].Ticket, nil
}

// unlock is what a person does whose command was refused for the token's sake.
func (e *episode) unlock(ctx context.Context, name string) error {
	_, err := lab.Succeeded(e.run(ctx, patience, lab.Run{PIN: e.token.pin()}, e.Binary, "unlock", name))
	return err
}

// signedIn: the enrollment's key opens the cluster, as its user, where the
// kubeconfig has its entry.
func (e *episode) signedIn(ctx context.Context, name string) error {
	if !e.entry(name) || e.model.enrolled[name].policy == "always" {
		return nil
	}
	if err := e.unlock(ctx, name); err != nil {
		return err
	}
	var out string
	var err error
	// A certificate that has been renewed is followed within seconds.
	poll.Within(5*time.Second, func() bool {
		out, err = lab.Succeeded(e.run(ctx, patience, lab.Run{}, e.Cluster.Kubectl(), "--context", name, "auth", "whoami",
			"-o",
			"jsonpath={.status.userInfo.username}"))
		return err == nil
	})
	if err == nil && out != e.model.enrolled[name].user {
		err = fmt.Errorf("%s signs in as %q", name, out)
	}
	return err
}
