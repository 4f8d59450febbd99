package enroll

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/hsm/shared/cluster"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/kubeconfig/discovery"
	"github.com/kubehsm/kubehsm/plugin/enrollment"
	"github.com/kubehsm/kubehsm/ui/flow/contexts"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/env"
)

// spares completes and checks what asks for the key of a spare token.
type spares struct{ env *env.Env }

// complete finds out of which enrollment a spare is asked for, and fills in whom the
// certificate is for and what the first key was made with. Without a name for the spare's own record it takes
// the one of a spare that was begun, or a free one.
func (n spares) complete(ctx context.Context, o *enrolling.Options) error {
	store := n.env.Enrollments()
	if known, err := store.Load(o.Name); err == nil {
		enrolling.Fill(&o.SpareOf, known.SpareOf)
	}
	if j, err := enrolling.NewStore(n.env).Load(o.Name); err == nil {
		enrolling.Fill(&o.SpareOf, j.Options.SpareOf)
	}
	if o.SpareOf == "" {
		if err := n.ofTicket(o); err != nil {
			return err
		}
	}
	of, filer := o.SpareOf, o.Context
	switch {
	case of == "" && !o.Spare:
		return nil
	case of == "":
		all, err := contexts.New(n.env).List(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(c contexts.View) bool { return c.Name == o.Context && c.Ours }) {
			filer = ""
		}
		en, err := contexts.Meant(ctx, n.env, o.Name, o.Context)
		if err != nil {
			return err
		}
		of, o.Name = en.Name, ""
	}
	first, err := store.Load(of)
	if err != nil {
		return err
	}
	family, err := store.Family(first)
	if err != nil {
		return err
	}
	o.Spare, o.SpareOf = false, first.Name
	if o.Name == "" {
		if o.Name, err = n.nextName(first.Name); err != nil {
			return err
		}
	}
	o.Except = nil
	for _, e := range family {
		if e.Name != o.Name {
			o.Except = append(o.Except, e.Key.TokenOnly())
		}
	}
	enrolling.Fill(&o.User, first.User)
	if o.Groups == nil {
		o.Groups = first.Groups
	}
	if o.Join == nil {
		if o.Context = filer; filer == "" {
			o.Context = first.Context
		}
	}
	j, err := enrolling.NewStore(n.env).Load(first.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	join, slot, label := o.Join, o.Generate.Slot, o.Generate.Label
	o.FillRenewed(j.Options)
	o.Join, o.Generate.Slot, o.Generate.Label = join, slot, label
	return nil
}

// ofTicket finds the enrollment that a ticket is for a spare of: the one of the same user with the same
// cluster, where the ticket was made for a spare token, or a spare is asked for.
func (n spares) ofTicket(o *enrolling.Options) error {
	if o.Join == nil || o.Join.Endpoint == "" || !o.Spare && !strings.HasSuffix(o.Name, enrolling.SpareSuffix) {
		return nil
	}
	all, err := n.env.Enrollments().List()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e enrollment.Enrollment) bool {
		return e.SpareOf != "" || e.Name == o.Name || e.User != o.User || !isPinned(e.Cluster, o.Join.Pins)
	})
	if len(all) > 0 {
		named := slices.IndexFunc(all, func(e enrollment.Enrollment) bool { return e.Name+enrolling.SpareSuffix == o.Name })
		o.SpareOf, o.Name = all[max(named, 0)].Name, ""
		return nil
	}
	if o.Spare {
		return hint.With(fmt.Errorf("nobody called %q is enrolled with %s here: there is nothing to make a spare of",
			o.User, o.Join.Endpoint), "leave --spare out, to join")
	}
	return nil
}

// isPinned tells whether a cluster has one of the authorities that a ticket pins. Its address may be another one.
func isPinned(c cluster.Cluster, pins []discovery.Pin) bool {
	own, err := discovery.PinsOf(c.CAData)
	return err == nil && slices.ContainsFunc(own, func(p discovery.Pin) bool { return slices.Contains(pins, p) })
}

// nextName is the name of the spare of the enrollment called name that was begun, or a free one.
func (n spares) nextName(name string) (string, error) {
	const longest = 63 - len(enrolling.SpareSuffix) - len("-99")
	base := strings.TrimRight(name[:min(len(name), longest)], "-.") + enrolling.SpareSuffix
	for i := 1; ; i++ {
		spare := base
		if i > 1 {
			spare = fmt.Sprintf("%s-%d", base, i)
		}
		j, err := enrolling.NewStore(n.env).Load(spare)
		if err == nil && j.Options.SpareOf == name && !j.Finished() {
			return spare, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if _, known := n.env.Enrollments().Load(spare); err != nil && errors.Is(known, enrollment.ErrUnknown) {
			return spare, nil
		}
	}
}

// check is the error for a spare on the token of another key of the same enrollment, since whoever
// loses one would lose both, and for one whose certificate is another user's.
func (n spares) check(o enrolling.Options) error {
	if o.SpareOf == "" {
		return nil
	}
	for _, t := range o.Except {
		if enrolling.SameToken(o.Token, t) {
			return hint.With(fmt.Errorf("a key of %s is on this token already", o.SpareOf),
				"a spare goes on another token: insert that one")
		}
	}
	first, err := n.env.Enrollments().Load(o.SpareOf)
	if err != nil || o.User == first.User && slices.Equal(o.Groups, first.Groups) {
		return err
	}
	return hint.With(fmt.Errorf("a spare of %s is for the same user and groups: %q, in %q", first.Name, first.User,
		strings.Join(first.Groups, ", ")), "leave --spare out, to enroll somebody else")
}

// checkCluster is the error for a spare whose ticket is for another cluster than the enrollment called of.
func (n spares) checkCluster(of string, found cluster.Cluster) error {
	first, err := n.env.Enrollments().Load(of)
	if err != nil || first.Cluster.Server == found.Server {
		return err
	}
	if pins, err := discovery.PinsOf(found.CAData); err == nil && isPinned(first.Cluster, pins) {
		return nil
	}
	return hint.With(fmt.Errorf("%s is enrolled with %s, not with %s: %w", of, first.Cluster.Server, found.Server,
		enrolling.ErrTicket), "leave --spare out, to enroll with the other cluster")
}
