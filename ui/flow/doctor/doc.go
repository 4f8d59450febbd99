// Package doctor looks at everything between a person, a token, kubectl and a
// cluster, and says of each thing in what state it is, why that matters and what
// to do. It changes nothing, asks for no PIN and starts no agent.
package doctor
