package judge

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/attest"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
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
		if len(t.policy.Groups) > 0 && !slices.ContainsFunc(t.policy.Groups, func(p string) bool { return matches(p, g) }) {
			return refuse(Deny, ReasonPolicy, fmt.Sprintf("the policy does not give the group %q", g))
		}
	}
	if limit := t.policy.MaxLifetime.Duration; limit > 0 && t.longer(limit) {
		return refuse(Deny, ReasonLifetime,
			fmt.Sprintf("it asks for %s, the policy gives %s at most", t.lifetimeWords(), span.Of(limit)))
	}
	return t.Decision, false
}

func matches(pattern, name string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

// invalidAttestation denies an attestation that is not valid.
func (t *trial) invalidAttestation() (Decision, bool) {
	if t.proof == nil || errors.Is(t.proof, attest.ErrNone) {
		return t.Decision, false
	}
	d, _ := t.says(Deny, ReasonAttestation, "its attestation is not valid: "+t.proof.Error())
	return d, true
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

// powerful leaves to a person what would let its holder take the rights of others.
func (t *trial) powerful() (Decision, bool, error) {
	why, err := t.cluster.Escalates(t.Subject)
	if err != nil || why == "" {
		return t.Decision, err != nil, err
	}
	message := "its holder could take the rights of others: " + why
	d, err := t.says(Person, ReasonPowerful, message)
	if t.policy.Powerful == clusterapi.Desk {
		d, err = t.desk(ReasonPowerful, message)
	}
	return d, true, err
}
