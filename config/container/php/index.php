<?php
// Any path is a page of its own: /checkout, /search ...
pinba_script_name_set(strtok($_SERVER['REQUEST_URI'], '?'));
pinba_tag_set('env', 'compose');
$timer = pinba_timer_start(['group' => 'db', 'server' => 'db1']);
usleep(random_int(1000, 20000));
pinba_timer_stop($timer);
echo "Seen by pinbad: http://127.0.0.1:30080/\n";
