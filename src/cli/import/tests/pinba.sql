-- MySQL dump 10.13  Distrib 5.6.33, for Linux (x86_64)
--
-- Host: localhost    Database: pinba
-- ------------------------------------------------------
-- Server version	5.6.33-log

/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!40101 SET NAMES utf8 */;
/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;
/*!40103 SET TIME_ZONE='+00:00' */;
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;

--
-- Table structure for table `request`
--

DROP TABLE IF EXISTS `request`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `request` (
  `id` int(11) NOT NULL,
  `hostname` varchar(32) DEFAULT NULL,
  `req_count` int(11) DEFAULT NULL,
  `server_name` varchar(64) DEFAULT NULL,
  `script_name` varchar(128) DEFAULT NULL,
  `doc_size` float DEFAULT NULL,
  `mem_peak_usage` float DEFAULT NULL,
  `req_time` float DEFAULT NULL,
  `ru_utime` float DEFAULT NULL,
  `ru_stime` float DEFAULT NULL,
  `timers_cnt` int(11) DEFAULT NULL,
  `status` int(11) DEFAULT NULL,
  `memory_footprint` float DEFAULT NULL,
  `schema` varchar(16) DEFAULT NULL,
  `tags_cnt` int(11) DEFAULT NULL,
  `tags` varchar(1024) DEFAULT NULL,
  `timestamp` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='request';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `timer`
--

DROP TABLE IF EXISTS `timer`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `timer` (
  `id` int(11) NOT NULL,
  `request_id` int(11) NOT NULL,
  `hit_count` int(11) DEFAULT NULL,
  `value` float DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `request_id` (`request_id`)
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='timer';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `timertag`
--

DROP TABLE IF EXISTS `timertag`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `timertag` (
  `timer_id` int(11) NOT NULL,
  `tag_id` int(11) NOT NULL,
  `value` varchar(64) DEFAULT NULL,
  KEY `timer_id` (`timer_id`)
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='timertag';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `tag`
--

DROP TABLE IF EXISTS `tag`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `tag` (
  `id` int(11) NOT NULL,
  `name` varchar(255) NOT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `name` (`name`)
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='tag';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `info`
--

DROP TABLE IF EXISTS `info`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `info` (
  `req_count` int(11) DEFAULT NULL,
  `time_total` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `time_interval` int(11) DEFAULT NULL,
  `kbytes_total` float DEFAULT NULL,
  `memory_footprint` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='info';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_script_name`
--

DROP TABLE IF EXISTS `report_by_script_name`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_script_name` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `script_name` varchar(128) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report1';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_server_name`
--

DROP TABLE IF EXISTS `report_by_server_name`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_server_name` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `server_name` varchar(64) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report2';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_hostname`
--

DROP TABLE IF EXISTS `report_by_hostname`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_hostname` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `hostname` varchar(32) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report3';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_server_and_script`
--

DROP TABLE IF EXISTS `report_by_server_and_script`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_server_and_script` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `server_name` varchar(64) DEFAULT NULL,
  `script_name` varchar(128) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report4';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_hostname_and_script`
--

DROP TABLE IF EXISTS `report_by_hostname_and_script`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_hostname_and_script` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `hostname` varchar(32) DEFAULT NULL,
  `script_name` varchar(128) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report5';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_hostname_and_server`
--

DROP TABLE IF EXISTS `report_by_hostname_and_server`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_hostname_and_server` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `hostname` varchar(32) DEFAULT NULL,
  `server_name` varchar(64) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report6';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_hostname_server_and_script`
--

DROP TABLE IF EXISTS `report_by_hostname_server_and_script`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_hostname_server_and_script` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `hostname` varchar(32) DEFAULT NULL,
  `server_name` varchar(64) DEFAULT NULL,
  `script_name` varchar(128) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report7';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_status`
--

DROP TABLE IF EXISTS `report_by_status`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_status` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `status` int(11) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report8';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_script_and_status`
--

DROP TABLE IF EXISTS `report_by_script_and_status`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_script_and_status` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `script_name` varchar(128) DEFAULT NULL,
  `status` int(11) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report9';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_server_and_status`
--

DROP TABLE IF EXISTS `report_by_server_and_status`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_server_and_status` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `server_name` varchar(64) DEFAULT NULL,
  `status` int(11) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report10';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_hostname_and_status`
--

DROP TABLE IF EXISTS `report_by_hostname_and_status`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_hostname_and_status` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `hostname` varchar(32) DEFAULT NULL,
  `status` int(11) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report11';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_hostname_script_and_status`
--

DROP TABLE IF EXISTS `report_by_hostname_script_and_status`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_hostname_script_and_status` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `hostname` varchar(32) DEFAULT NULL,
  `script_name` varchar(128) DEFAULT NULL,
  `status` int(11) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report12';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_schema`
--

DROP TABLE IF EXISTS `report_by_schema`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_schema` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `schema` varchar(16) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report13';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_script_and_schema`
--

DROP TABLE IF EXISTS `report_by_script_and_schema`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_script_and_schema` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `script_name` varchar(128) DEFAULT NULL,
  `schema` varchar(16) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report14';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_server_and_schema`
--

DROP TABLE IF EXISTS `report_by_server_and_schema`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_server_and_schema` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `server_name` varchar(64) DEFAULT NULL,
  `schema` varchar(16) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report15';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_hostname_and_schema`
--

DROP TABLE IF EXISTS `report_by_hostname_and_schema`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_hostname_and_schema` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `hostname` varchar(32) DEFAULT NULL,
  `schema` varchar(16) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report16';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_hostname_script_and_schema`
--

DROP TABLE IF EXISTS `report_by_hostname_script_and_schema`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_hostname_script_and_schema` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `hostname` varchar(32) DEFAULT NULL,
  `script_name` varchar(128) DEFAULT NULL,
  `schema` varchar(16) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report17';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_hostname_status_and_schema`
--

DROP TABLE IF EXISTS `report_by_hostname_status_and_schema`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_hostname_status_and_schema` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `hostname` varchar(32) DEFAULT NULL,
  `status` int(11) DEFAULT NULL,
  `schema` varchar(16) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report18';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `status`
--

DROP TABLE IF EXISTS `status`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `status` (
  `current_temp_pool_size` int(11) NOT NULL,
  `current_timer_pool_size` int(11) NOT NULL,
  `lost_tmp_records` int(11) NOT NULL,
  `invalid_packets` int(11) NOT NULL,
  `invalid_request_data` int(11) NOT NULL,
  `build_string` varchar(256) DEFAULT NULL,
  `dictionary_size` int(11) NOT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='status';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `report_by_script_90`
--

DROP TABLE IF EXISTS `report_by_script_90`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `report_by_script_90` (
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `req_time_total` float DEFAULT NULL,
  `req_time_percent` float DEFAULT NULL,
  `req_time_per_sec` float DEFAULT NULL,
  `ru_utime_total` float DEFAULT NULL,
  `ru_utime_percent` float DEFAULT NULL,
  `ru_utime_per_sec` float DEFAULT NULL,
  `ru_stime_total` float DEFAULT NULL,
  `ru_stime_percent` float DEFAULT NULL,
  `ru_stime_per_sec` float DEFAULT NULL,
  `traffic_total` float DEFAULT NULL,
  `traffic_percent` float DEFAULT NULL,
  `traffic_per_sec` float DEFAULT NULL,
  `script_name` varchar(128) DEFAULT NULL,
  `memory_footprint_total` float DEFAULT NULL,
  `memory_footprint_percent` float DEFAULT NULL,
  `req_time_median` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL,
  `p90` float DEFAULT NULL,
  `p95` float DEFAULT NULL,
  `p99` float DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='report1:::90,95,99';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `tag_info_group_server`
--

DROP TABLE IF EXISTS `tag_info_group_server`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `tag_info_group_server` (
  `tag1_value` varchar(64) DEFAULT NULL,
  `tag2_value` varchar(64) DEFAULT NULL,
  `tag3_value` varchar(64) DEFAULT NULL,
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `hit_count` int(11) DEFAULT NULL,
  `hit_per_sec` float DEFAULT NULL,
  `timer_value` float DEFAULT NULL,
  `timer_median` float DEFAULT NULL,
  `ru_utime_value` float DEFAULT NULL,
  `ru_stime_value` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL,
  `p90` float DEFAULT NULL,
  `p95` float DEFAULT NULL,
  `p99` float DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='tagN_info:group,server,__server_name::90,95,99';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `slow_by_group`
--

DROP TABLE IF EXISTS `slow_by_group`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `slow_by_group` (
  `script_name` varchar(128) NOT NULL DEFAULT '',
  `tag_value` varchar(64) DEFAULT NULL,
  `req_count` int(11) DEFAULT NULL,
  `req_per_sec` float DEFAULT NULL,
  `hit_count` int(11) DEFAULT NULL,
  `hit_per_sec` float DEFAULT NULL,
  `timer_value` float DEFAULT NULL,
  `timer_median` float DEFAULT NULL,
  `ru_utime_value` float DEFAULT NULL,
  `ru_stime_value` float DEFAULT NULL,
  `index_value` varchar(256) DEFAULT NULL,
  KEY `script_name` (`script_name`)
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='tag_report:group:min_time=0.5,tag.env=it''s';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `hv_script`
--

DROP TABLE IF EXISTS `hv_script`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `hv_script` (
  `index_value` varchar(256) NOT NULL,
  `segment` int(11) DEFAULT NULL,
  `time_value` float DEFAULT NULL,
  `cnt` int(11) DEFAULT NULL,
  `percent` float DEFAULT NULL,
  KEY `index_value` (`index_value`(85))
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='hv.report1';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `who`
--

DROP TABLE IF EXISTS `who`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `who` (
  `id` varchar(256) DEFAULT NULL,
  `name` varchar(256) DEFAULT NULL,
  `kind` varchar(32) DEFAULT NULL,
  `type` varchar(64) DEFAULT NULL,
  `results_cnt` int(11) DEFAULT NULL
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='active';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `requests_of_old`
--

DROP TABLE IF EXISTS `requests_of_old`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!40101 SET character_set_client = utf8 */;
CREATE TABLE `requests_of_old` (
  `id` int(11) NOT NULL,
  `hostname` varchar(32) DEFAULT NULL,
  `req_count` int(11) DEFAULT NULL,
  `server_name` varchar(64) DEFAULT NULL,
  `script_name` varchar(128) DEFAULT NULL,
  `doc_size` float DEFAULT NULL,
  `mem_peak_usage` float DEFAULT NULL,
  `req_time` float DEFAULT NULL,
  `ru_utime` float DEFAULT NULL,
  `ru_stime` float DEFAULT NULL,
  `timers_cnt` int(11) DEFAULT NULL,
  `status` int(11) DEFAULT NULL,
  `memory_footprint` float DEFAULT NULL,
  `schema` varchar(16) DEFAULT NULL,
  `tags_cnt` int(11) DEFAULT NULL,
  `tags` varchar(1024) DEFAULT NULL,
  `timestamp` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=PINBA DEFAULT CHARSET=latin1 COMMENT='request';
/*!40101 SET character_set_client = @saved_cs_client */;

--
-- Table structure for table `servers`
--

DROP TABLE IF EXISTS `servers`;
CREATE TABLE `servers` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `note` text,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8;

LOCK TABLES `servers` WRITE;
/*!40000 ALTER TABLE `servers` DISABLE KEYS */;
INSERT INTO `servers` VALUES (1,'CREATE TABLE `x` (`a` int) ENGINE=PINBA COMMENT=\'report1\';'),(2,'it''s \\');
/*!40000 ALTER TABLE `servers` ENABLE KEYS */;
UNLOCK TABLES;
/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;

-- Dump completed on 2017-03-01 10:00:00
