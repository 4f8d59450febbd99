// Package auditing puts on record what the agent does ([Records]), for whom
// ([Requester]), and what became of the enrollments' consent policies ([Policies]). It
// knows the audit log and the store of enrollments, and nothing of tokens or connections.
package auditing
