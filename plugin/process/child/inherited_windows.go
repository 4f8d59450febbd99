package child

// DropInherited does nothing: a process is given the handles that are named.
func DropInherited(int) error { return nil }

// CloseOnExec does nothing: see DropInherited.
func CloseOnExec(int) error { return nil }
