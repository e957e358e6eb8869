package record

import "testing"

// TestVMCommandOfAnEnvironment: the first command line of QEMU is recorded, and rows without one
// do not change it.
func TestVMCommandOfAnEnvironment(t *testing.T) {
	hosts := []string{"n7"}
	got := ExercisedBy([]Row{
		{Environment: "native", Hosts: hosts, Status: OK},
		{Environment: "kvm", Hosts: hosts, Status: Failed},
		{Environment: "kvm", Hosts: hosts, Status: OK, VMCommand: "qemu -m 1"},
		{Environment: "kvm", Hosts: hosts, Status: OK, VMCommand: "qemu -m 2"},
		{Environment: "kvm", Hosts: hosts, Status: OK, Block: 1},
	})
	if len(got) != 2 || got[0].VMCommand != "" || got[1].VMCommand != "qemu -m 1" || got[1].Measured != 3 {
		t.Errorf("got %+v", got)
	}
}
