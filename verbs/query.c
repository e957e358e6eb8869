#include "context.h"

#include <time.h>

#undef ibv_query_port

EXPORT int ibv_query_device(struct ibv_context *x, struct ibv_device_attr *a)
{
	const struct bee_hello_reply *l = &context_of(x)->limits;

	memset(a, 0, sizeof *a);
	strcpy(a->fw_ver, "1");
	a->node_guid = a->sys_image_guid = l->node_guid;
	a->max_mr_size = l->memory;
	a->page_size_cap = 4096;
	a->vendor_id = 0xbee;
	a->vendor_part_id = 1;
	a->max_qp = (int)l->max_qp;
	a->max_qp_wr = (int)l->max_wr;
	a->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_MGT_EXTENSIONS;
	a->max_sge = a->max_sge_rd = a->max_srq_sge = (int)l->max_sge;
	a->max_cq = (int)l->max_cq;
	a->max_cqe = (int)l->max_wr * 16;
	a->max_mr = (int)l->max_mr;
	a->max_pd = (int)l->max_pd;
	a->max_qp_rd_atom = a->max_qp_init_rd_atom = (int)l->max_rd_atomic;
	a->max_res_rd_atom = (int)(l->max_rd_atomic * l->max_qp);
	a->atomic_cap = IBV_ATOMIC_GLOB;
	a->max_mcast_grp = 256;
	a->max_mcast_qp_attach = BEE_MEMBERS;
	a->max_total_mcast_qp_attach = 256 * BEE_MEMBERS;
	a->max_ah = (int)l->max_ah;
	a->max_srq = (int)l->max_srq;
	a->max_srq_wr = (int)l->max_wr;
	a->max_pkeys = 1;
	a->local_ca_ack_delay = 15;
	a->phys_port_cnt = 1;
	return 0;
}

int query_device_ex(struct ibv_context *x, const struct ibv_query_device_ex_input *in,
		    struct ibv_device_attr_ex *a, size_t size)
{
	(void)in;
	if (size < sizeof a->orig_attr)
		return EINVAL;
	memset(a, 0, size);
	ibv_query_device(x, &a->orig_attr);
	if (size >= sizeof *a) {
		a->completion_timestamp_mask = UINT64_MAX;
		a->hca_core_clock = 1000000; /* kHz: timestamps are nanoseconds */
		a->phys_port_cnt_ex = 1;
	}
	return 0;
}

int query_port_ex(struct ibv_context *x, uint8_t port, struct ibv_port_attr *out, size_t size)
{
	const struct bee_hello_reply *l = &context_of(x)->limits;
	struct ibv_port_attr a = {
		.state = IBV_PORT_ACTIVE, .max_mtu = IBV_MTU_4096, .active_mtu = IBV_MTU_4096,
		.gid_tbl_len = 1, .port_cap_flags = IBV_PORT_CM_SUP, .max_msg_sz = 1u << 31,
		.pkey_tbl_len = 1, .lid = l->lid, .sm_lid = 1, .max_vl_num = 1,
		.active_width = 2, .active_speed = 64, .phys_state = 5,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
	};

	if (port != 1)
		return EINVAL;
	memset(out, 0, size);
	memcpy(out, &a, size < sizeof a ? size : sizeof a);
	return 0;
}

/* The old form, whose struct ends before port_cap_flags2. */
EXPORT int ibv_query_port(struct ibv_context *x, uint8_t port, struct _compat_ibv_port_attr *a)
{
	return query_port_ex(x, port, (struct ibv_port_attr *)a, offsetof(struct ibv_port_attr, port_cap_flags2));
}

EXPORT int ibv_query_gid(struct ibv_context *x, uint8_t port, int index, union ibv_gid *gid)
{
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	memcpy(gid, context_of(x)->limits.gid, sizeof *gid);
	return 0;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *x, uint32_t port, uint32_t index,
			     struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	struct ibv_gid_entry e = {.gid_index = 0, .port_num = 1, .gid_type = IBV_GID_TYPE_IB};

	if (flags)
		return EOPNOTSUPP;
	if (port != 1)
		return EINVAL;
	if (index != 0)
		return ENODATA;
	memcpy(&e.gid, context_of(x)->limits.gid, sizeof e.gid);
	memset(entry, 0, size);
	memcpy(entry, &e, size < sizeof e ? size : sizeof e);
	return 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *x, struct ibv_gid_entry *entries,
				    size_t room, uint32_t flags, size_t size)
{
	if (flags)
		return -EOPNOTSUPP;
	if (room == 0)
		return -EINVAL;
	return _ibv_query_gid_ex(x, 1, 0, entries, 0, size) == 0 ? 1 : -EINVAL;
}

EXPORT int ibv_query_pkey(struct ibv_context *x, uint8_t port, int index, __be16 *pkey)
{
	(void)x;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = 0xffff;
	return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *x, uint8_t port, __be16 pkey)
{
	(void)x;
	if (port == 1 && pkey == 0xffff)
		return 0;
	errno = EINVAL;
	return -1;
}

int query_rt_values(struct ibv_context *x, struct ibv_values_ex *values)
{
	uint64_t now = monotonic_ns();

	(void)x;
	if (!(values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		return EINVAL;
	values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	values->raw_clock.tv_sec = (time_t)(now / 1000000000u);
	values->raw_clock.tv_nsec = (long)(now % 1000000000u);
	return 0;
}

EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *x, struct ibv_ah_attr *a,
				       uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	(void)x, (void)a, (void)mac, (void)vid;
	return EOPNOTSUPP;
}

/* The tools of rdma-core ask for this; 0: a GID of InfiniBand. */
EXPORT int ibv_query_gid_type(struct ibv_context *x, uint8_t port, unsigned int index, int *type);
EXPORT int ibv_query_gid_type(struct ibv_context *x, uint8_t port, unsigned int index, int *type)
{
	(void)x;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*type = 0;
	return 0;
}
