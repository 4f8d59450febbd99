package desk

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/ui/flow/cluster"
	"github.com/kubehsm/kubehsm/ui/flow/env"
	"github.com/kubehsm/kubehsm/ui/flow/request"
)

// Roster is the list of tokens in a cluster where the approver runs.
type Roster struct {
	access   cluster.Access
	requests request.Requests
}

// NewRoster returns that of the clusters that e leads to.
func NewRoster(e *env.Env) Roster { return Roster{cluster.Access{Env: e}, request.NewRequests(e)} }

// RosterEntry is a token and whose it is. All text in it was written by others.
type RosterEntry struct {
	Serial string   `json:"serial"`
	Owner  string   `json:"owner,omitempty"`
	Groups []string `json:"groups,omitempty"`
	// State is one of [clusterapi.TokenState]'s.
	State string `json:"state"`
	// Horizon is when its last certificate ends at the latest, nil for never.
	Horizon *time.Time `json:"horizon,omitempty"`
	// NotAfter is the end of its certificate, nil if it never had one.
	NotAfter *time.Time `json:"notAfter,omitempty"`
	Model    string     `json:"model,omitempty"`
	// Stage, Why and Request are of a [Board] alone: Request is the one that waits or was denied, and
	// Why is what its requester was told.
	Stage   Stage  `json:"stage,omitempty"`
	Why     string `json:"why,omitempty"`
	Request string `json:"request,omitempty"`

	// absent are the columns that the list lacks: what the roster has of them stays.
	absent []string
}

// ErrRoster is a list that cannot be imported: it says each line that is wrong.
var ErrRoster = errors.New("the list cannot be imported")

// rosterColumns are those of a list; serial must be there.
var rosterColumns = []string{"serial", "owner", "groups", "horizon", "state"}

var serialNumber = regexp.MustCompile(`^(0|[1-9][0-9]{0,18})$`)

// ReadRoster reads a list of tokens: comma-separated values with the names of the columns in the first line. Groups
// have semicolons between them, a horizon is a date such as 2027-06-30, and ends with that day (UTC). A token is handed
// out if it has an owner, and in stock if it has none, where the state is not said. With serials, the list is a
// maker's: that column has the serial numbers, and the others say nothing. Errors are [ErrRoster].
func ReadRoster(list []byte, serials string) ([]RosterEntry, error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(list, []byte("\ufeff")))) // a mark of some editors'
	r.TrimLeadingSpace, r.FieldsPerRecord = true, 0
	const columns = "the first line names the columns, with commas between them: "
	heading, err := r.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, hint.With(fmt.Errorf("%w: it is empty", ErrRoster), columns+strings.Join(rosterColumns, ","))
	case err != nil:
		return nil, fmt.Errorf("%w: its first line: %w", ErrRoster, err)
	}
	for i := range heading {
		heading[i] = strings.ToLower(strings.TrimSpace(heading[i]))
	}
	if serials != "" {
		name := strings.ToLower(strings.TrimSpace(serials))
		at := slices.Index(heading, name)
		if at < 0 || slices.Contains(heading[at+1:], name) {
			return nil, hint.With(fmt.Errorf("%w: it needs exactly one column %q", ErrRoster, serials),
				"its columns are: "+strings.Join(heading, ", "))
		}
		heading = make([]string, len(heading))
		heading[at] = "serial"
	} else if err := checkHeading(heading); err != nil {
		return nil, hint.With(err, columns+strings.Join(rosterColumns, ","))
	}
	var all []RosterEntry
	var wrong []error
	lines := map[string]int{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRoster, err)
		}
		line, _ := r.FieldPos(0)
		e, err := rosterEntry(heading, row)
		if err == nil && lines[e.Serial] > 0 {
			err = fmt.Errorf("the token %s is in line %d too", e.Serial, lines[e.Serial])
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("line %d: %w", line, err))
			continue
		}
		lines[e.Serial] = line
		all = append(all, e)
	}
	switch {
	case len(wrong) > 0:
		return nil, fmt.Errorf("%w: %w", ErrRoster, errors.Join(wrong...))
	case len(all) == 0:
		return nil, fmt.Errorf("%w: it names no token", ErrRoster)
	}
	return all, nil
}

// checkHeading refuses a column that is none of the roster's, one that is there twice, and a list without serial.
func checkHeading(heading []string) error {
	for i, name := range heading {
		if !slices.Contains(rosterColumns, name) || slices.Contains(heading[:i], name) {
			return fmt.Errorf("%w: its first line has a column %q", ErrRoster, name)
		}
	}
	if !slices.Contains(heading, "serial") {
		return fmt.Errorf("%w: it has no column serial", ErrRoster)
	}
	return nil
}

func rosterEntry(heading, row []string) (RosterEntry, error) {
	var e RosterEntry
	for i, name := range heading {
		value := strings.TrimSpace(row[i])
		switch {
		case value == "":
		case name == "serial":
			e.Serial = value
		case name == "owner":
			e.Owner = value
		case name == "state":
			e.State = value
		case name == "horizon":
			day, err := time.Parse(time.DateOnly, value)
			if err != nil {
				return e, fmt.Errorf("%q is no date such as 2027-06-30", value)
			}
			end := day.Add(24 * time.Hour)
			e.Horizon = &end
		case name == "groups":
			for g := range strings.SplitSeq(value, ";") {
				e.Groups = append(e.Groups, strings.TrimSpace(g))
			}
		}
	}
	e.absent = slices.DeleteFunc(slices.Clone(rosterColumns), func(c string) bool { return slices.Contains(heading, c) })
	states := []clusterapi.TokenState{clusterapi.Stock, clusterapi.HandedOut, clusterapi.Active, clusterapi.Lost,
		clusterapi.Retired}
	switch {
	case !serialNumber.MatchString(e.Serial):
		return e, fmt.Errorf("%q is no serial number", e.Serial)
	case e.State != "" && !slices.Contains(states, clusterapi.TokenState(e.State)):
		return e, fmt.Errorf("%q is no state: there are %v", e.State, states)
	case e.Owner == "" && (len(e.Groups) > 0 || e.State != "" && e.State != string(clusterapi.Stock)):
		return e, errors.New("groups, and any state but Stock, need an owner")
	case e.Owner == "":
		return e, nil
	}
	// What the cluster refuses is refused before half of a list is written.
	for _, name := range append([]string{e.Owner}, e.Groups...) {
		if reserved(name) {
			return e, fmt.Errorf("the name %q is reserved: it begins with %s or %s", name, "system:", "kubehsm:")
		}
	}
	return e, csr.Subject{User: e.Owner, Groups: e.Groups}.Validate("")
}

// rosterObject is a HardwareToken as the API has it, by its name alone.
func rosterObject(serial string) object {
	return object{"apiVersion": clusterapi.GroupVersion.String(), "kind": "HardwareToken",
		"metadata": map[string]any{"namespace": clusterapi.Namespace, "name": serial}}
}

// errNoRoster is err with what to do where the cluster knows no roster.
func errNoRoster(err error) error {
	if isUnserved(err) {
		return hint.With(fmt.Errorf("the cluster has no roster: %w", err), "install the approver there first: docs/fleet.md")
	}
	return err
}

// Import writes entries on the roster, one after the other: what it has of other tokens
// stays, and so does what it has of columns that were not in the list. A token whose state
// is not said keeps the one that it has. Import returns how many were written, which the
// API server only checks with dryRun.
func (r Roster) Import(
	ctx context.Context,
	kubeContext string,
	all []RosterEntry,
	dryRun bool,
) (written int, err error) {
	c, err := openObjects(ctx, r.access, kubeContext)
	if err != nil {
		return 0, err
	}
	for _, e := range all {
		o, err := c.get(ctx, rosterObject(e.Serial))
		known := err == nil
		switch {
		case known:
			e.keep(entryOf(o))
		case isNotFound(err):
			o = rosterObject(e.Serial)
		default:
			return written, errNoRoster(err)
		}
		switch {
		case e.State != "" && (e.State != string(clusterapi.Stock) || e.Owner == ""):
		case e.Owner != "":
			e.State = string(clusterapi.HandedOut)
		default:
			e.State = string(clusterapi.Stock)
		}
		spec := map[string]any{"state": e.State, "groups": append([]string{}, e.Groups...)}
		if e.Owner != "" {
			spec["owner"] = e.Owner
		}
		if e.Horizon != nil {
			spec["horizon"] = e.Horizon.UTC().Format(time.RFC3339)
		}
		o["spec"] = spec
		if known { // not applied: what the approver wrote would stay where a cell is empty
			err = c.put(ctx, o, dryRun)
		} else {
			err = c.post(ctx, o, dryRun)
		}
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return written, hint.With(err, "the token "+e.Serial+" was changed meanwhile: import the list again")
		}
		if err != nil {
			return written, errNoRoster(err)
		}
		written++
	}
	return written, nil
}

// keep takes over from old what the list does not say.
func (e *RosterEntry) keep(old RosterEntry) {
	if e.State == "" {
		e.State = old.State
	}
	for _, column := range e.absent {
		switch column {
		case "owner":
			e.Owner = old.Owner
		case "groups":
			e.Groups = old.Groups
		case "horizon":
			e.Horizon = old.Horizon
		}
	}
}

// List is the roster as the cluster has it.
func (r Roster) List(ctx context.Context, kubeContext string) ([]RosterEntry, error) {
	c, err := openObjects(ctx, r.access, kubeContext)
	if err != nil {
		return nil, err
	}
	var all []RosterEntry
	err = c.list(ctx, rosterObject(""), func(o object) {
		all = append(all, entryOf(o))
	})
	return all, errNoRoster(err)
}

func entryOf(o object) RosterEntry {
	e := RosterEntry{Serial: o.name(), Owner: o.text("spec", "owner"), State: o.text("spec", "state"),
		Model: o.text("status", "model"), Horizon: o.time("spec", "horizon"), NotAfter: o.time("status", "notAfter")}
	spec, _ := o["spec"].(map[string]any)
	groups, _ := spec["groups"].([]any)
	for _, g := range groups {
		e.Groups = append(e.Groups, fmt.Sprint(g))
	}
	return e
}

// time reads a time of the API's, nil if there is none.
func (o object) time(path ...string) *time.Time {
	t, err := time.Parse(time.RFC3339, o.text(path...))
	if err != nil {
		return nil
	}
	return &t
}
