//go:build !linux && !darwin

package home

// host is "": the environment does not move the agent's folder here.
func host() string { return "" }
