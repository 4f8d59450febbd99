package agent

// dropInherited does nothing: a process is given the handles that are named.
func dropInherited(int) error { return nil }

func closeOnExec(int) error { return nil }
