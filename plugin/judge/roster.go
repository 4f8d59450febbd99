package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/csr"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/kubeconfig/bootstraptoken"
	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// byRoster judges what anybody filed: the attestation says which token it is, the
// roster whose.
func (t *trial) byRoster() (Decision, error) {
	if t.Statement == nil {
		by := t.Object.Spec.Username
		if d, done := t.invalidAttestation(); done &&
			(by == clusterapi.JoinerUser || strings.HasPrefix(by, bootstraptoken.UserPrefix)) {
			return d, nil
		}
		return t.says(Person, ReasonForeign, "it was filed without a ticket, and nothing proves where its key is")
	}
	token, err := t.cluster.Token(t.Statement.Serial)
	switch {
	case err != nil:
		return t.Decision, err
	case token == nil:
		return t.says(Person, ReasonUnknown, "its token "+t.Statement.Serial+" is not on the roster")
	}
	t.Token = token
	if d, done := t.client(Deny); done {
		return d, nil
	}
	if d, done := t.given(); done {
		return d, nil
	}
	if d, done := t.bounds(); done {
		return d, nil
	}
	if d, done := t.device(); done {
		return d, nil
	}
	if d, done := t.ofDesk(); done {
		return d, nil
	}
	return t.says(Approve, ReasonRoster, "the key is proven to be in the token "+token.Name+", which is its user's")
}

func notOwned(t *trial) string {
	return fmt.Sprintf("the roster says that the token %s is not that of %q", t.Token.Name, t.Subject.User)
}

// NotGiven says why the roster, with the entry token, does not give at now what the request a asks for;
// "" if it does.
func NotGiven(a Asked, token *clusterapi.HardwareToken, now time.Time) string {
	t := &trial{Asked: a, Decision: Decision{Token: token}, now: now}
	if d, refused := t.given(); refused {
		return d.Message
	}
	return ""
}

// given refuses what the roster does not give to the token's owner.
func (t *trial) given() (Decision, bool) {
	refuse := func(reason, message string) (Decision, bool) {
		d, _ := t.says(Deny, reason, message)
		return d, true
	}
	if t.Token.Spec.Owner != t.Subject.User {
		return refuse(ReasonOwner, notOwned(t))
	}
	for _, g := range t.Subject.Groups {
		if !slices.Contains(t.Token.Spec.Groups, g) {
			return refuse(ReasonGroups, fmt.Sprintf("it asks for the group %q, which the roster does not give", g))
		}
	}
	return t.inUse()
}

// inUse refuses what the roster says is over.
func (t *trial) inUse() (Decision, bool) {
	refuse := func(v Verdict, reason, message string) (Decision, bool) {
		d, _ := t.says(v, reason, message)
		return d, true
	}
	spec := t.Token.Spec
	switch {
	case spec.State == clusterapi.Lost || spec.State == clusterapi.Retired:
		return refuse(Deny, ReasonToken,
			fmt.Sprintf("the roster says that the token %s is %s", t.Token.Name, strings.ToLower(string(spec.State))))
	case spec.State == clusterapi.Stock && t.Ticket == "":
		return refuse(Person, ReasonToken,
			fmt.Sprintf("the roster says that the token %s is in stock: nobody has it", t.Token.Name))
	case spec.Horizon == nil:
		return t.Decision, false
	}
	switch left := spec.Horizon.Sub(t.now); {
	case left <= 0:
		return refuse(Deny, ReasonHorizon, "the horizon of the token "+t.Token.Name+" on the roster has passed")
	case t.longer(left):
		words := fmt.Sprintf("it asks for %s, and the horizon of the token %s on the roster is in %s", t.lifetimeWords(),
			t.Token.Name, span.Of(left.Truncate(time.Minute)))
		if offered := (left - time.Minute).Truncate(time.Minute); offered >= csr.MinExpiration {
			words += offer + offered.String()
		}
		return refuse(Deny, ReasonHorizon, words)
	}
	return t.Decision, false
}

// offer precedes, in the message of a denial, the lifetime that another request may ask for.
const offer = "; it may ask for "

// Offered is the lifetime for which a request that was denied with that reason and message may be filed again, 0 if
// there is none.
func Offered(reason, message string) time.Duration {
	_, text, _ := strings.Cut(message, offer)
	d, err := time.ParseDuration(text)
	if reason != ReasonHorizon || err != nil || d < csr.MinExpiration {
		return 0
	}
	return d
}
