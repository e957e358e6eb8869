package main

// vm compares a program that does nothing in a virtual machine with one in a
// container on the host. Where KVM does not work both ways are emulated.
func (g guestBench) vm(rounds int) error {
	for name, vm := range map[string]string{"plain": "false", "vm": "{cpus: 2, memory: 1G}"} {
		if err := g.b.write(name+".yaml", "name: nothing\nimage: docker-archive:busybox.tar\nvm: "+vm+"\nrun: [\"true\"]\n"); err != nil {
			return err
		}
	}
	large := "name: large\nbuild: {debian: bookworm, slim: true, packages: [gromacs, lammps, hpcc, openmpi-bin, python3-mpi4py]}\nvm: {cpus: 2, memory: 1G}\nrun: [\"true\"]\n"
	if err := g.b.write("large.yaml", large); err != nil {
		return err
	}
	rounds = max(rounds/8, 2)
	inside, err := g.b.median(rounds, g.b.bee, "run", "-q", "vm.yaml")
	if err != nil {
		return err
	}
	plain, err := g.b.median(rounds, g.b.bee, "run", "-q", "plain.yaml")
	if err != nil {
		return err
	}
	largeInside, err := g.b.median(rounds, g.b.bee, "run", "-q", "large.yaml")
	if err != nil {
		return err
	}
	g.b.row("`bee run` of `true` in a virtual machine, small image, end to end", inside, "without `vm:`", plain)
	g.b.row("the same, image of 1 GB", largeInside, "small image", inside)
	return nil
}
