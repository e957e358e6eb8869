package core

// NoticeVariable, in the environment of a node and of the first process of its
// container, makes TERM the site's notice that it takes the host back. Slurm
// sends it to every process of a job: the node then asks the job to save
// itself, and nothing else of ours may end before that is done. A node is ended
// by INT instead.
const NoticeVariable = "BEE_TERM_IS_NOTICE"

// RentedDir is there on a machine that BEE rents. Its guard writes there what the cloud announces, as a time in seconds
// since 1970: in NoticeFile when the cloud takes the machine back, in MaintenanceFile when it stops the machine for
// maintenance, and in RebalanceFile since when it has recommended to leave the machine. All are root's.
const (
	RentedDir       = "/etc/bee"
	NoticeFile      = RentedDir + "/notice"
	MaintenanceFile = RentedDir + "/maintenance"
	RebalanceFile   = RentedDir + "/rebalance"
)
