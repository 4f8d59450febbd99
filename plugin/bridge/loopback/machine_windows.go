package loopback

import "golang.org/x/sys/windows/registry"

// machineID is the id that Windows' set-up makes.
func machineID() []byte {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Cryptography`,
		registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return nil
	}
	defer key.Close()
	id, _, err := key.GetStringValue("MachineGuid")
	if err != nil {
		return nil
	}
	return []byte(id)
}
