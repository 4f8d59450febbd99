// Package desk is what a help desk does in clusters, and what it prepares there: tickets
// and other bootstrap tokens, approvals that end them, revocations, break-glass, roles.
// What was done is put on the local record. It runs no enrollment.
package desk
