/*M!999999\- enable the sandbox mode */ 
-- MariaDB dump 10.19  Distrib 10.5.8-MariaDB, for Linux (x86_64)
--
-- Host: localhost    Database: pinba
-- ------------------------------------------------------
/*!40101 SET NAMES utf8mb4 */;

DROP TABLE IF EXISTS `active`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `active` (
  `id` bigint(20) unsigned NOT NULL,
  `table_name` varchar(128) NOT NULL,
  `internal_name` varchar(128) NOT NULL,
  `kind` varchar(64) NOT NULL,
  `uptime` double NOT NULL,
  `time_window_sec` bigint(20) unsigned NOT NULL,
  `tick_count` bigint(20) unsigned NOT NULL,
  `approx_row_count` bigint(20) unsigned NOT NULL,
  `approx_mem_used` bigint(20) unsigned NOT NULL,
  `batches_sent` bigint(20) unsigned NOT NULL,
  `batches_received` bigint(20) unsigned NOT NULL,
  `packets_received` bigint(20) unsigned NOT NULL,
  `packets_lost` bigint(20) unsigned NOT NULL,
  `packets_aggregated` bigint(20) unsigned NOT NULL,
  `packets_dropped_by_bloom` bigint(20) unsigned NOT NULL,
  `packets_dropped_by_filters` bigint(20) unsigned NOT NULL,
  `packets_dropped_by_rfield` bigint(20) unsigned NOT NULL,
  `packets_dropped_by_rtag` bigint(20) unsigned NOT NULL,
  `packets_dropped_by_timertag` bigint(20) unsigned NOT NULL,
  `timers_scanned` bigint(20) unsigned NOT NULL,
  `timers_aggregated` bigint(20) unsigned NOT NULL,
  `timers_skipped_by_bloom` bigint(20) unsigned NOT NULL,
  `timers_skipped_by_filters` bigint(20) unsigned NOT NULL,
  `timers_skipped_by_tags` bigint(20) unsigned NOT NULL,
  `ru_utime` double NOT NULL,
  `ru_stime` double NOT NULL,
  `last_tick_time` double NOT NULL,
  `last_tick_prepare_duration` double NOT NULL,
  `last_snapshot_merge_duration` double NOT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci COMMENT='v2/active';
/*!40101 SET character_set_client = @saved_cs_client */;

DROP TABLE IF EXISTS `stats`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `stats` (
  `uptime` double NOT NULL,
  `ru_utime` double NOT NULL,
  `ru_stime` double NOT NULL,
  `udp_poll_total` bigint(20) unsigned NOT NULL,
  `udp_recv_total` bigint(20) unsigned NOT NULL,
  `udp_recv_eagain` bigint(20) unsigned NOT NULL,
  `udp_recv_bytes` bigint(20) unsigned NOT NULL,
  `udp_recv_packets` bigint(20) unsigned NOT NULL,
  `udp_packet_decode_err` bigint(20) unsigned NOT NULL,
  `udp_batch_send_total` bigint(20) unsigned NOT NULL,
  `udp_batch_send_err` bigint(20) unsigned NOT NULL,
  `udp_packet_send_total` bigint(20) unsigned NOT NULL,
  `udp_packet_send_err` bigint(20) unsigned NOT NULL,
  `udp_ru_utime` double NOT NULL,
  `udp_ru_stime` double NOT NULL,
  `repacker_poll_total` bigint(20) unsigned NOT NULL,
  `repacker_recv_total` bigint(20) unsigned NOT NULL,
  `repacker_recv_eagain` bigint(20) unsigned NOT NULL,
  `repacker_recv_packets` bigint(20) unsigned NOT NULL,
  `repacker_packet_validate_err` bigint(20) unsigned NOT NULL,
  `repacker_batch_send_total` bigint(20) unsigned NOT NULL,
  `repacker_batch_send_by_timer` bigint(20) unsigned NOT NULL,
  `repacker_batch_send_by_size` bigint(20) unsigned NOT NULL,
  `repacker_ru_utime` double NOT NULL,
  `repacker_ru_stime` double NOT NULL,
  `coordinator_batches_received` bigint(20) unsigned NOT NULL,
  `coordinator_batch_send_total` bigint(20) unsigned NOT NULL,
  `coordinator_batch_send_err` bigint(20) unsigned NOT NULL,
  `coordinator_control_requests` bigint(20) unsigned NOT NULL,
  `coordinator_ru_utime` double NOT NULL,
  `coordinator_ru_stime` double NOT NULL,
  `dictionary_size` bigint(20) unsigned NOT NULL,
  `dictionary_mem_hash` bigint(20) unsigned NOT NULL,
  `dictionary_mem_list` bigint(20) unsigned NOT NULL,
  `dictionary_mem_strings` bigint(20) unsigned NOT NULL,
  `version_info` text NOT NULL,
  `build_string` text NOT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci COMMENT='v2/stats';
/*!40101 SET character_set_client = @saved_cs_client */;

DROP TABLE IF EXISTS `info`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `info` (
  `req_count` bigint(20) unsigned NOT NULL,
  `timer_count` bigint(20) unsigned NOT NULL,
  `time_total` double NOT NULL,
  `ru_utime_total` double NOT NULL,
  `ru_stime_total` double NOT NULL,
  `traffic` bigint(20) unsigned NOT NULL,
  `memory_footprint` bigint(20) unsigned NOT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci COMMENT='v2/packet/60/no_keys/no_percentiles/no_filters';
/*!40101 SET character_set_client = @saved_cs_client */;

DROP TABLE IF EXISTS `script_report`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `script_report` (
  `script` varchar(64) NOT NULL,
  `req_count` int unsigned DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_percent` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `traffic_total` bigint DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `memory_footprint` bigint DEFAULT NULL,
  `memory_per_sec` float DEFAULT NULL,
  `memory_percent` float DEFAULT NULL,
  `p50` float NOT NULL,
  `p99_9` float NOT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci COMMENT='v2/request/60/~script/hv=0:10000:10000,p50,p99.9/no_filters';
/*!40101 SET character_set_client = @saved_cs_client */;

DROP TABLE IF EXISTS `tag_info_group`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `tag_info_group` (
  `script` varchar(64) NOT NULL,
  `group` varchar(64) NOT NULL,
  `env` varchar(64) NOT NULL,
  `req_count` int(10) unsigned NOT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci COMMENT='v2/timer/default_history_time/~script,@group,+env/percentiles=50:95,hv=0:1000:1000/min_time=0.1';
/*!40101 SET character_set_client = @saved_cs_client */;

DROP TABLE IF EXISTS `broken`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `broken` (
  `group` varchar(64) NOT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci COMMENT='v2/timer/60/@group/no_percentiles';
/*!40101 SET character_set_client = @saved_cs_client */;
