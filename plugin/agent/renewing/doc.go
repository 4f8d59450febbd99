// Package renewing gets the next certificate for a key that the agent holds, without a person,
// where an approver in the cluster approved the last one by itself. What it has begun is on
// record ([enrollment.Renewal]), so that it goes on after a restart, and so that the agent and
// `kubehsm certificate renew` never have two requests open.
//
// It knows neither tokens nor connections: the agent gives it a [Way] for each enrollment.
package renewing
