// Package fleet is what tests and the trial of many people share: a cluster with the approver in it, as
// its manifests say, and people who join with a card and the join line of the roster.
package fleet
