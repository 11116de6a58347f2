//! The mariadb tools, as they are installed from Debian.
