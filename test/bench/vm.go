package main

// vm compares a program that does nothing in virtual machines with images of two sizes.
// Where KVM does not work both are emulated.
func (g guestBench) vm(rounds int) error {
	small := "name: nothing\nimage: docker-archive:busybox.tar\nvm: {cpus: 2, memory: 1G}\nrun: [\"true\"]\n"
	if err := g.b.write("vm.yaml", small); err != nil {
		return err
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
	largeInside, err := g.b.median(rounds, g.b.bee, "run", "-q", "large.yaml")
	if err != nil {
		return err
	}
	g.b.row("`bee run` of `true` in a virtual machine, end to end, image of 1 GB", largeInside, "small image", inside)
	return nil
}
