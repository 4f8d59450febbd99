//go:build !linux && !darwin

package home

// host is nothing here: the environment does not move the agent's folder.
func host() string { return "" }
