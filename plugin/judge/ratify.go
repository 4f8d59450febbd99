package judge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubehsm/kubehsm/plugin/clusterapi"
)

// Ratify is the verdict on a request that a person is to decide on, by is whom, once
// they have: nobody decides on what they asked for themselves, and the help desk approves
// nothing that could not be read.
func (d Decision) Ratify(by clusterapi.PersonDecision, a Asked) Decision {
	reason, message := by.Reason, strings.TrimSpace(fmt.Sprintf("%s (decided by %s)", by.Message, by.By))
	if BySelf(reason) {
		reason = ReasonPerson
	}
	switch {
	case d.Verdict != Person:
		return d
	case !by.Approve:
		d.Verdict, d.Reason, d.Message = Deny, reason, message
	case d.AdminOnly, a.RequestInfo == nil:
		d.AdminOnly = true
		d.Message = "the help desk cannot approve it, an admin can: " + d.Message
	case by.By == a.Object.Spec.Username, by.By == a.Subject.User:
		d.Message = "nobody approves what they ask for themselves: " + d.Message
	default:
		d.Verdict, d.Reason, d.Message = Approve, reason, message
	}
	return d
}

// BySelf tells whether a condition with that reason was set for what is proven, without a person:
// the cluster approves renewals by itself, too.
func BySelf(reason string) bool {
	return slices.Contains([]string{ReasonTicket, ReasonRenewal, ReasonRoster}, reason)
}
