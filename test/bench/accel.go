package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/vm"
)

// guestly is a step with virtual machines: its rows begin with the accelerator that
// these have, as figures of two accelerators cannot be compared.
func (b *bench) guestly(step func(int) error) func(int) error {
	return func(rounds int) error {
		why, err := b.findAccel()
		if err != nil {
			return err
		}
		b.rows = append(b.rows, [4]string{"accelerator of the virtual machines", b.accel, why, "–"})
		return step(rounds)
	}
}

// findAccel asks bee what virtual machines have here; why is for people. The first
// machine on a host finds it out.
func (b *bench) findAccel() (why string, err error) {
	for range 2 {
		out, err := b.command(b.bee, "doctor", "--json").Output()
		if err != nil {
			return "", fmt.Errorf("bee doctor: %w", err)
		}
		var printed struct {
			Findings []struct {
				Name, Detail string
				OK, Untried  bool
			}
		}
		if err := json.Unmarshal(out, &printed); err != nil {
			return "", fmt.Errorf("bee doctor: %w", err)
		}
		for _, f := range printed.Findings {
			if f.Name != "KVM" || f.Untried {
				continue
			}
			if b.accel = vm.TCG; f.OK {
				b.accel = vm.KVM
			}
			return f.Detail, nil
		}
		if _, _, err := b.ownStart(newSize(1024)); err != nil {
			return "", err
		}
	}
	return "", errors.New("bee doctor does not tell whether KVM works, though a virtual machine has run: see what it says of KVM")
}
