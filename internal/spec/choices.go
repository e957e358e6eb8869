package spec

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/measure"
)

// What keys can have, by their path without indexes, such as "sites[].provider":
// the checks and the schema both go by it.

// words of the keys that have a choice of them.
func words() map[string][]string {
	runtimes := []string{"auto", "rootless", "docker", "podman", "apptainer", "charliecloud", "lxc"}
	rdma := []string{RDMAAuto, RDMAHost, RDMABee, RDMASoft, RDMANone}
	return map[string][]string{
		"runtime":                             runtimes,
		"progress":                            measure.Programs(),
		"progress.program":                    measure.Programs(),
		"rdma":                                rdma,
		"rdma.device":                         rdma,
		"rdma.path":                           {PathDirect, PathForward},
		"user":                                {UserRoot, UserCaller},
		"scratch":                             {"memory", "disk"},
		"order":                               {OrderListed, OrderCheapest, OrderSoonest},
		"build.builder":                       append(Engines(), BuilderVM),
		"checkpoint.mode":                     {CheckpointApp, CheckpointVM, CheckpointAuto},
		"volume.shared":                       {SharedAny, SharedRequired},
		"volume.credentials":                  {CredentialsSite, CredentialsSend, CredentialsRelay},
		"volume.kind":                         {VolumeAuto, VolumeVirtio, VolumeImage, VolumeBurst},
		"vm.when":                             {VMAlways, VMNever, VMAuto},
		"vm.accel":                            {"auto", "kvm", "tcg"},
		"vm.fabric":                           {"switch", "star", "tree", "multicast", "none"},
		"vm.devices":                          {DevicesVirtio, DevicesEmulated},
		"vm.nic":                              {NICRings, NICSockets},
		"vm.encryption":                       {EncryptionTLS, EncryptionNone},
		"vm.share":                            {"9p", "virtiofs"},
		"sites[].provider":                    {"local", "ssh", "slurm", "aws", "openstack", "virtualbox"},
		"sites[].virtualbox.devices":          {DevicesVirtio, DevicesEmulated},
		"sites[].openstack.network.floating":  {"head", "all", "none"},
		"sites[].openstack.lease.kind":        {"host", "instance", "flavor"},
		"sites[].aws.network.public":          publicWords(),
		"sites[].aws.placement":               placements(),
		"sites[].aws.placement.cluster":       {placementRequired},
		"sites[].aws.placement.spread":        {placementRequired},
		"sites[].openstack.placement":         placements(),
		"sites[].openstack.placement.cluster": {placementRequired},
		"sites[].openstack.placement.spread":  {placementRequired},
		"sites[].runtime":                     runtimes,
	}
}

// wanted are the commands of which an empty list is a mistake: in their place it
// would start the image's own.
func wanted() []string { return []string{"setup", "run", "post", "resume", "checkpoint.command"} }

// limits of a number, both of which it can be.
type limits struct{ least, most float64 }

func (l limits) String() string {
	if math.IsInf(l.most, 1) {
		return fmt.Sprintf("at least %v", l.least)
	}
	return fmt.Sprintf("from %.0f to %.0f", l.least, l.most)
}

// numbers are the limits of the keys that have a number.
func numbers() map[string]limits {
	natural := limits{0, math.Inf(1)}
	return map[string]limits{
		"nodes":                   {1, 100000},
		"ranks_per_node":          {0, 100000}, // more than any host has processors
		"cores":                   {0, 100000},
		"retry":                   natural,
		"array.at_once":           {0, mostTogether},
		"array.pack":              {0, 10000},
		"progress.total":          natural,
		"rdma.qps":                {1, 65536},
		"vm.per_host":             {0, 256},
		"vm.cpus":                 natural,
		"vm.sockets":              natural,
		"vm.threads":              natural,
		"vm.mtu":                  {1280, 65521},
		"sites[].hosts":           {0, 1000}, // that can be emulated
		"sites[].slots":           natural,
		"sites[].runs":            natural,
		"sites[].price":           natural,
		"sites[].price.amount":    natural,
		"sites[].max_cost":        natural,
		"sites[].virtualbox.cpus": {0, 64},
		"sites[].aws.max_price":   natural,
	}
}

// patterns of the keys that have text of a fixed form; of a mapping's, that of its
// keys.
func patterns() map[string]string {
	const currencyName = `^[A-Za-z]{1,12}$`
	const variable = `^[A-Za-z_][A-Za-z0-9_]*$`
	return map[string]string{
		"name":                               `^[^/\n]*$`,
		"labels":                             `^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$`,
		"metrics":                            `^[A-Za-z]([A-Za-z0-9._-]{0,38}[A-Za-z0-9])?$`,
		"workdir":                            `^(/|$)`,
		"platform":                           `^linux/(` + strings.Join(architectures(), "|") + `)(/[^/]+)?$`,
		"env":                                variable,
		"secrets":                            variable,
		"build.env":                          variable,
		"sites[].aws.market":                 `^(` + strings.Join(markets(), "|") + `)$`,
		"inputs[].sha256":                    `^[0-9A-Fa-f]{64}$`,
		"rdma.domain":                        `^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`,
		"rdma.pci":                           `^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`,
		"mounts[].from":                      `^(/|\$|[A-Za-z0-9])`,
		"mounts[].to":                        `^/`,
		"sites[].paths":                      pathName,
		"sites[].price.currency":             currencyName,
		"exchange":                           currencyName,
		"sites[].aws.image":                  imageName,
		"sites[].openstack.image":            openStackImage,
		"sites[].aws.tags":                   tagName,
		"sites[].aws.network.vpc":            vpcName,
		"sites[].aws.network.subnets":        subnetName,
		"sites[].aws.network.bastion":        bastionName,
		"sites[].openstack.network.bastion":  bastionName,
		"sites[].openstack.tags":             metadataName,
		"sites[].openstack.lease.start":      leaseStartForm,
		"sites[].openstack.lease.properties": leaseProperty,
		"sites[].virtualbox.machine":         machineName,
		"sites[].virtualbox.snapshot":        machineName,
		"sites[].virtualbox.user":            accountName,
		"sites[].virtualbox.host_key":        hostKey,
		"build.debian":                       `^[A-Za-z0-9][A-Za-z0-9.+_/-]*$`,
		"build.mirror":                       `^(https?|ftp|file|copy):/[!-Z\\^-~]*$`,
	}
}

// fits reports whether a text has the form that a key wants.
func fits(key, text string) bool { return matches(patterns()[key], text) }

// oneOf refuses what is none of a key's words.
func (r *report) oneOf(at, value string) {
	choice := words()[anyIndex(at)]
	if _, given := r.places[at]; value == "" && !given || slices.Contains(choice, value) {
		return
	}
	r.at(at, didYouMean(value, choice), "%s: %q is not known", at, value)
}

// within refuses numbers beyond a key's limits; such a value counts as none. A
// number that is not given is 0.
func within[N int | float64](r *report, at string, n N) {
	_, given := r.places[at]
	_, flag := r.flags[at]
	l := numbers()[anyIndex(at)]
	if n == 0 && !given && !flag || float64(n) >= l.least && float64(n) <= l.most {
		return
	}
	r.at(at, l.String(), "%s: %v cannot be", at, n)
	r.fails(at)
}

// anyIndex takes the numbers out of the indexes of a path.
func anyIndex(path string) string {
	var b strings.Builder
	for i, part := range strings.Split(path, "[") {
		if i > 0 {
			_, part, _ = strings.Cut(part, "]")
			b.WriteString("[]")
		}
		b.WriteString(part)
	}
	return b.String()
}
