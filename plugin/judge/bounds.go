package judge

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
)

// client refuses what a client's certificate does not need.
func (t *trial) client(v Verdict) (Decision, bool) {
	if names := t.AlternativeNames(); len(names) > 0 {
		d, _ := t.says(v, ReasonPolicy, "it asks for alternative names: "+strings.Join(names, ", "))
		return d, true
	}
	if u := t.otherUsages(); len(u) > 0 {
		d, _ := t.says(v, ReasonPolicy, fmt.Sprintf("it asks for the usage %q, which a client certificate does not need",
			u[0]))
		return d, true
	}
	return t.Decision, false
}

// bounds are what no ticket and no roster gives.
func (t *trial) bounds() (Decision, bool) {
	refuse := func(v Verdict, reason, message string) (Decision, bool) {
		d, _ := t.says(v, reason, message)
		return d, true
	}
	for _, name := range append([]string{t.Subject.User}, t.Subject.Groups...) {
		if strings.HasPrefix(name, systemPrefix) || strings.HasPrefix(name, kubehsmPrefix) {
			return refuse(Deny, ReasonReserved, fmt.Sprintf("the name %q is reserved: it begins with system: or kubehsm:", name))
		}
	}
	if len(t.Oddities) > 0 {
		return refuse(Person, ReasonOdd, strings.Join(t.Oddities, "; "))
	}
	for _, g := range t.Subject.Groups {
		if len(t.policy.Groups) > 0 && !listed(t.policy.Groups, g) {
			return refuse(Deny, ReasonPolicy, fmt.Sprintf("the policy does not give the group %q", g))
		}
	}
	if limit := t.policy.MaxLifetime.Duration; limit > 0 && t.longer(limit) {
		return refuse(Deny, ReasonLifetime,
			fmt.Sprintf("it asks for %s, the policy gives %s at most", t.lifetimeWords(), span.Of(limit)))
	}
	return t.Decision, false
}

// listed reports whether a pattern, which may have one *, is for the name.
func listed(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		begin, end, open := strings.Cut(pattern, "*")
		return pattern == name || open && len(name) >= len(begin)+len(end) &&
			strings.HasPrefix(name, begin) && strings.HasSuffix(name, end)
	})
}

// invalidAttestation denies an attestation that is not valid.
func (t *trial) invalidAttestation() (Decision, bool) {
	if t.proof == nil || errors.Is(t.proof, attest.ErrNone) {
		return t.Decision, false
	}
	d, _ := t.says(Deny, ReasonAttestation, "its attestation is not valid: "+t.proof.Error())
	return d, true
}

// MaxWaiting is how many requests by one join line, or ticket, wait for a person at a time.
const MaxWaiting = 500

// Bounded denies a request by a join line that d leaves to a person, if [MaxWaiting] earlier ones wait: its holder could
// file more than there is memory for what is kept of each.
func (d Decision) Bounded(obj *certificatesv1.CertificateSigningRequest, cluster Cluster) (Decision, error) {
	if d.Verdict != Person || !ByJoiner(obj) {
		return d, nil
	}
	mine, err := Version(obj)
	if err != nil {
		return d, err
	}
	waiting := 0
	for o, err := range cluster.Others(obj.Spec.Username, obj.UID) {
		if err != nil {
			return d, err
		}
		if !o.Approved && o.Version < mine {
			waiting++
		}
		if waiting == MaxWaiting {
			return Decision{Verdict: Deny, Reason: ReasonCrowd, Message: fmt.Sprintf(
				"%d requests by its join line wait for a person: file it again once they are decided on", waiting)}, nil
		}
	}
	return d, nil
}

// device compares the attested key with the policy.
func (t *trial) device() (Decision, bool) {
	s, p := t.Statement, t.policy.Attestation
	var wrong string
	has, err := version(s.Firmware)
	switch {
	case s.Serial == "":
		wrong = "its attestation tells no serial number"
	case len(t.firmware) > 0 && (err != nil || slices.Compare(has, t.firmware) < 0):
		wrong = fmt.Sprintf("the firmware of its token is %q, the policy asks for %s", s.Firmware, p.MinFirmware)
	case p.FIPS && !s.FIPS:
		wrong = "its token is not of a FIPS series"
	case p.PIN == "once" && s.PIN < hsm.PINOnce, p.PIN == "always" && s.PIN != hsm.PINAlways:
		wrong = fmt.Sprintf("its key has PIN %s, the policy asks for %s", s.PIN, p.PIN)
	case p.Touch == "cached" && s.Touch < hsm.TouchCached, p.Touch == "always" && s.Touch != hsm.TouchAlways:
		wrong = fmt.Sprintf("its key has touch %s, the policy asks for %s", s.Touch, p.Touch)
	default:
		return t.Decision, false
	}
	d, _ := t.says(Deny, ReasonPolicy, wrong)
	return d, true
}

// version reads numbers with dots between them; "" is none.
func version(text string) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	var v []int
	for part := range strings.SplitSeq(text, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no version", text)
		}
		v = append(v, n)
	}
	return v, nil
}

// ofDesk leaves to an admin the names that the policy does not list for the help desk: whoever writes
// tickets and the roster would otherwise give everybody's rights to themselves.
func (t *trial) ofDesk() (Decision, bool) {
	wrong := ""
	if !listed(t.policy.DeskUsers, t.Subject.User) {
		wrong = fmt.Sprintf("the policy does not list the user name %q for the help desk (deskUsers)", t.Subject.User)
	}
	for _, g := range t.Subject.Groups {
		if wrong == "" && !listed(t.policy.DeskGroups, g) {
			wrong = fmt.Sprintf("the policy does not list the group %q for the help desk (deskGroups)", g)
		}
	}
	if wrong == "" {
		return t.Decision, false
	}
	d, _ := t.says(Person, ReasonNotForDesk, wrong)
	return d, true
}
