package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/vm"
)

// guestBench measures virtual machines.
type guestBench struct{ b *bench }

// guestly is a step with virtual machines: its rows begin with the accelerator that
// these have, as figures of two accelerators cannot be compared.
func (g guestBench) guestly(step func(int) error) func(int) error {
	return func(rounds int) error {
		why, err := g.findAccel()
		if err != nil {
			return err
		}
		g.b.rows = append(g.b.rows, [4]string{"accelerator of the virtual machines", g.b.accel, why, "–"})
		return step(rounds)
	}
}

// findAccel asks bee what virtual machines have here; why is for people. The first
// machine on a host finds it out.
func (g guestBench) findAccel() (why string, err error) {
	for range 2 {
		out, err := g.b.command(g.b.bee, "doctor", "--json").Output()
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
			if g.b.accel = vm.TCG; f.OK {
				g.b.accel = vm.KVM
			}
			return f.Detail, nil
		}
		if _, _, err := g.ownStart(newSize(1024)); err != nil {
			return "", err
		}
	}
	return "", errors.New("bee doctor does not tell whether KVM works, though a virtual machine has run: see what it says of KVM")
}
