package main

// vm compares a program that does nothing in a virtual machine with one in a
// container on the host. Where KVM does not work both ways are emulated.
func (b *bench) vm(rounds int) error {
	for name, vm := range map[string]string{"plain": "false", "vm": "{cpus: 2, memory: 1G}"} {
		if err := b.write(name+".yaml", "name: nothing\nimage: docker-archive:busybox.tar\nvm: "+vm+"\nrun: [\"true\"]\n"); err != nil {
			return err
		}
	}
	large := "name: large\nbuild: {debian: bookworm, slim: true, packages: [gromacs, lammps, hpcc, openmpi-bin, python3-mpi4py]}\nvm: {cpus: 2, memory: 1G}\nrun: [\"true\"]\n"
	if err := b.write("large.yaml", large); err != nil {
		return err
	}
	rounds = max(rounds/8, 2)
	inside, err := b.median(rounds, b.bee, "run", "-q", "vm.yaml")
	if err != nil {
		return err
	}
	plain, err := b.median(rounds, b.bee, "run", "-q", "plain.yaml")
	if err != nil {
		return err
	}
	largeInside, err := b.median(rounds, b.bee, "run", "-q", "large.yaml")
	if err != nil {
		return err
	}
	b.row("`bee run` of `true` in a virtual machine, small image, end to end", inside, "without `vm:`", plain)
	b.row("the same, image of 1 GB", largeInside, "small image", inside)
	return nil
}
